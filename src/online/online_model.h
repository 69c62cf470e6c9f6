// A forward-pass model that learns while serving: an engine whose estimates are corrected by what
// is observed, or, without an engine, a regression on the observations alone.
//
// Not synchronised: one thread at a time. Copies are independent.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "engine/engine.h"
#include "engine/forward_pass_metrics.h"
#include "online/fit.h"
#include "online/options.h"
#include "online/sample_store.h"

namespace infercast {

enum class OnlineSource : std::uint8_t { kEngine, kCorrectedEngine, kRegression };
template <>
struct EnumNames<OnlineSource> {
  static constexpr std::string_view kType = "online model source";
  static constexpr std::array<std::string_view, 3> kNames = {"aic", "aic_with_correction",
                                                             "fallback_regression"};
};
enum class OnlineReadiness : std::uint8_t { kReady, kInsufficientData, kUnsupportedConfig };
template <>
struct EnumNames<OnlineReadiness> {
  static constexpr std::string_view kType = "online model readiness";
  static constexpr std::array<std::string_view, 3> kNames = {"ready", "insufficient_data",
                                                             "unsupported_config"};
};

struct OnlineDiagnostics {
  OnlineSource source{};
  OnlineReadiness readiness{};
  std::uint64_t retained_observations = 0;
  std::uint64_t correction_ready_buckets = 0;
  std::optional<std::string> last_warning;
};

// Over the corrections in use; none while nothing is corrected.
struct CorrectionFactors {
  std::optional<double> min, max, mean;
};

class OnlineModel {
 public:
  // kInvalidEngineConfig for options out of range.
  static Result<OnlineModel> FromEngine(std::shared_ptr<const Engine> engine,
                                        const OnlineOptions& options);
  // `warning`: why there is no engine, when one was wanted.
  static Result<OnlineModel> FromRegression(const OnlineOptions& options,
                                            std::optional<std::string> warning = std::nullopt);
  // The engine if it could be had; a regression when there is no such model or data; any other
  // error is answered as it is.
  static Result<OnlineModel> BestAvailable(const Result<std::shared_ptr<const Engine>>& engine,
                                           const OnlineOptions& options);

  // Milliseconds of an iteration, one record a rank; 0 without work. None: not known yet.
  Result<std::optional<double>> Estimate(std::span<const ForwardPassMetrics> ranks) const;

  // Learns from iterations, in order. At the first error it stops; what came before is kept.
  Status Tune(std::span<const std::vector<ForwardPassMetrics>> iterations);

  OnlineDiagnostics Diagnostics() const;
  CorrectionFactors Corrections() const;

 private:
  OnlineModel(std::shared_ptr<const Engine> engine, const OnlineOptions& options);

  // Median correction of a bucket.
  static std::optional<double> FactorOf(const SampleStore& store, std::uint64_t bucket);
  double Factor(const ObservedWork& workload) const;
  bool IsReady(const SampleStore& store) const { return store.size() >= options_.min_observations; }
  SampleStore& StoreOf(WorkKind kind) { return stores_[static_cast<std::size_t>(kind)]; }
  const SampleStore& StoreOf(WorkKind kind) const {
    return stores_[static_cast<std::size_t>(kind)];
  }

  std::shared_ptr<const Engine> engine_;  // null: regression
  OnlineOptions options_;
  std::optional<std::string> warning_;
  std::vector<SampleStore> stores_;  // one per kind of work
  std::array<std::optional<Fit>, kNumWorkKinds> fits_;
};

}  // namespace infercast
