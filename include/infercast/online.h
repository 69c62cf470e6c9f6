// OnlineModel: a forward-pass model that learns while serving. It starts from an engine's estimates
// and corrects them by what is observed, or, without an engine, fits a regression.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infercast/engine.h"
#include "infercast/error.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
// One rank's record of one iteration. What is not needed here (queue lengths, variances) is left
// out; ParseMetrics reads whole records from JSON.
struct ForwardPassMetrics {
  ScheduledRequests scheduled;
  double wall_time_s = 0;  // seconds the iteration took; 0: not measured
};

struct OnlineOptions {
  std::uint64_t max_observations = 64;  // kept per kind of work (prefill, decode, mixed)
  std::uint64_t min_observations = 5;   // needed before a kind is corrected or fitted
  // Bounds of one observation's correction, observed / estimated; nullopt: unbounded.
  std::optional<double> min_faster_correction_factor = 0.5;
  std::optional<double> max_slower_correction_factor = 2.0;
  std::uint64_t bucket_count = 16;  // of the operating range; a perfect square
  // The operating range that corrections cover.
  std::uint32_t max_num_tokens = 8192;
  std::uint32_t max_batch_size = 512;
  std::uint32_t max_kv_tokens = 2000000;
};

struct OnlineDiagnostics {
  std::string source;     // "aic" (engine), "aic_with_correction", "fallback_regression"
  std::string readiness;  // "ready", "insufficient_data", "unsupported_config"
  std::uint64_t retained_observations = 0;
  std::uint64_t correction_ready_buckets = 0;
  std::string last_warning;  // empty: none
  // Corrections in use; nullopt while nothing is corrected.
  std::optional<double> min_correction, max_correction, mean_correction;
};

// One thread at a time; movable, not copyable.
class INFERCAST_API OnlineModel {
 public:
  // kInvalidEngineConfig for options out of range.
  static Result<OnlineModel> FromEngine(const Engine& engine, const OnlineOptions& options = {});
  static Result<OnlineModel> FromRegression(const OnlineOptions& options = {});
  // From an engine's identity as JSON (EngineConfig of docs/engine-spec.md): an engine where
  // model and data are there, else a regression that says why in its diagnostics.
  static Result<OnlineModel> BestAvailable(std::string_view engine_config_json,
                                           const OnlineOptions& options = {},
                                           const std::string& systems_paths = "",
                                           const std::string& behaviour = "native");

  OnlineModel(OnlineModel&&) noexcept;
  OnlineModel& operator=(OnlineModel&&) noexcept;
  ~OnlineModel();

  // Milliseconds of an iteration, one record a rank; 0 without work; nullopt: not known yet.
  // kInvalidForwardPassMetrics for records that contradict themselves.
  Result<std::optional<double>> Estimate(std::span<const ForwardPassMetrics> ranks) const;
  Result<std::optional<double>> Estimate(const ForwardPassMetrics& rank) const;

  // Learns from one iteration, one record a rank. Idle or unmeasured iterations change nothing.
  Result<void> Observe(std::span<const ForwardPassMetrics> ranks);

  OnlineDiagnostics Diagnostics() const;

  struct Impl;
  explicit OnlineModel(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Iterations from telemetry JSON (version 1): one record, a list of ranks (an iteration each), or
// a list of iterations of ranks. kInvalidArgument, kUnsupportedSchemaVersion.
INFERCAST_API Result<std::vector<std::vector<ForwardPassMetrics>>> ParseMetrics(
    std::string_view json);

}  // namespace v1
}  // namespace infercast
