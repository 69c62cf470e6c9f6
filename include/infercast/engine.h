// Engine: the latency of single steps of a model on a system. The fastest way to ask.
//
//   infercast::ModelOptions options;
//   options.model = "Qwen/Qwen3-32B";
//   options.data.system = "h200_sxm";
//   options.parallelism.tp = 2;
//   auto engine = infercast::Engine::Compile(options);
//   double ms = engine->Decode(/*batch=*/32, /*isl=*/4096).value();
//
// Units: milliseconds, tokens, watt-milliseconds. Requests and tokens are those of one
// data-parallel rank; pipeline stages are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infercast/database.h"
#include "infercast/error.h"
#include "infercast/model_options.h"
#include "infercast/spec.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
// A batch whose requests prefill together and then decode together.
struct StaticShape {
  std::uint32_t batch_size = 1;
  std::uint32_t isl = 1;     // input tokens of a request, cached ones included
  std::uint32_t osl = 1;     // generated tokens of a request, the first one included
  std::uint32_t prefix = 0;  // cached input tokens
  std::uint32_t beam_width = 1;
  double context_imbalance = 1.0;  // between ranks: scale of prefill attention
  double generation_imbalance = 1.0;
};

// One iteration of a continuous batch: `context_tokens` of prefill beside `decodes` requests that
// are halfway through their output.
struct MixedShape {
  std::uint32_t context_tokens = 0;
  std::uint32_t decodes = 0;
  std::uint32_t isl = 1;
  std::uint32_t osl = 1;
  std::uint32_t prefix = 0;
  double context_imbalance = 1.0;
  double generation_imbalance = 1.0;
};

// What one rank runs in one iteration, as serving engines report it.
struct ScheduledRequests {
  std::uint32_t num_prefill_requests = 0;
  std::uint32_t sum_prefill_tokens = 0;     // new tokens
  std::uint32_t sum_prefill_kv_tokens = 0;  // cached tokens that prefill reads
  std::uint32_t num_decode_requests = 0;
  std::uint32_t sum_decode_kv_tokens = 0;
};

struct StepCost {
  double latency_ms = 0;
  double energy_wms = 0;
  double powered_ms = 0;  // part of the latency whose operators have measured power
};
struct StaticCost {
  StepCost context;     // the prefill
  StepCost generation;  // all osl - 1 decode steps
  double total_ms() const { return context.latency_ms + generation.latency_ms; }
};
struct MixedCost {
  StepCost shared;  // everything but attention, over all tokens of the step
  StepCost context_attention;
  StepCost decode_attention;
  double total_ms() const {
    return (shared.latency_ms + context_attention.latency_ms) + decode_attention.latency_ms;
  }
};

// One operator's part of a step. Operators of one name are added up.
struct OperatorCost {
  std::string name;
  double latency_ms = 0;
  double energy_wms = 0;
  std::string source;   // "silicon", "empirical", "sol", "estimated", "mixed"
  std::string origin;   // "measured", "interpolated", "extrapolated", "estimated" ...: the weakest
  double octaves = 0;   // how far beyond the measurements (powers of two)
  std::string version;  // backend version of the nearest measured row; empty: none
  std::string donor;    // what an estimate was borrowed from; empty: nothing

  // Set by Estimate with EstimateOptions::bounds.
  std::string bound;  // "compute", "bandwidth", "launch", "communication", "none" (costs nothing),
                      // "unknown"; empty: not asked for
  double attained = 0;  // time at the speed of light over latency, 0.62 = 62 %; 0: not known
  double count = 0;     // calls in one pass of the model; 0: not known
};
using Breakdown = std::vector<OperatorCost>;
struct StaticBreakdown {
  Breakdown context;
  Breakdown generation;
};
struct MixedBreakdown {
  Breakdown shared;
  Breakdown context_attention;
  Breakdown decode_attention;
};

// A shape of a batch call that has no answer; its latency is NaN.
struct ShapeError {
  std::size_t index = 0;
  Error error;
};

// A handle; immutable, cheap to copy. Every const function may be called from any number of
// threads at once, and answers do not depend on what was asked before. Scalar calls neither
// allocate nor lock when they succeed.
class INFERCAST_API Engine {
 public:
  // Builds the model and binds its operators to the measurements. Errors of EngineSpec::Compile.
  static Result<Engine> Compile(const ModelOptions& options);
  // Opens the database that the description names. `systems_paths` and `behaviour` as in
  // DatabaseOptions. kUnsupportedSchemaVersion, kInvalidEngineConfig, kPerfDatabase,
  // kUnknownName.
  static Result<Engine> FromSpec(const EngineSpec& spec, const std::string& systems_paths = "",
                                 const std::string& behaviour = "native");
  // Prices the description with the measurements given.
  static Result<Engine> Bind(const EngineSpec& spec, const PerfDatabase& database);

  const EngineSpec& spec() const;

  // --- latency of a batch, ms ---
  // Prefill of `batch` requests of `isl` tokens, `prefix` of which are cached.
  Result<double> Prefill(std::uint32_t batch, std::uint32_t isl, std::uint32_t prefix = 0) const;
  // All decode steps after the first of `osl` tokens; osl = 2: one step, with isl + 1 tokens of
  // KV.
  Result<double> Decode(std::uint32_t batch, std::uint32_t isl, std::uint32_t osl = 2) const;
  // Both. Decode latency is sampled every `stride` tokens.
  Result<StaticCost> Static(const StaticShape& shape, std::uint32_t stride = 32) const;

  // --- one iteration of a continuous batch ---
  Result<MixedCost> MixedStep(const MixedShape& shape) const;
  Result<StepCost> DecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                              double generation_imbalance = 1.0) const;
  // An iteration as a scheduler knows it, one record a rank: the slowest rank, ms; 0 without
  // work. kInvalidForwardPassMetrics without records, or for tokens without requests.
  Result<double> ForwardPass(std::span<const ScheduledRequests> ranks) const;
  Result<double> ForwardPass(const ScheduledRequests& rank) const;

  // --- the same by operator ---
  Result<StaticBreakdown> ExplainStatic(const StaticShape& shape, std::uint32_t stride = 32) const;
  Result<MixedBreakdown> ExplainMixedStep(const MixedShape& shape) const;
  Result<Breakdown> ExplainDecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                                      double generation_imbalance = 1.0) const;

  // --- many shapes in one call ---
  // Each shape is answered into `latency_ms` as if asked alone. The spans must have one length
  // (else kInvalidArgument). Shapes without an answer are listed.
  Result<std::vector<ShapeError>> PrefillBatch(std::span<const std::uint32_t> batch,
                                               std::span<const std::uint32_t> isl,
                                               std::span<const std::uint32_t> prefix,
                                               std::span<double> latency_ms) const;
  Result<std::vector<ShapeError>> DecodeBatch(std::span<const std::uint32_t> batch,
                                              std::span<const std::uint32_t> isl,
                                              std::span<const std::uint32_t> osl,
                                              std::span<double> latency_ms) const;
  Result<std::vector<ShapeError>> DecodeStepBatch(std::span<const std::uint32_t> decodes,
                                                  std::span<const std::uint32_t> isl,
                                                  std::span<const std::uint32_t> osl,
                                                  std::span<double> latency_ms) const;
  Result<std::vector<ShapeError>> MixedStepBatch(std::span<const MixedShape> shapes,
                                                 std::span<double> latency_ms) const;
  Result<std::vector<ShapeError>> ForwardPassBatch(std::span<const ScheduledRequests> records,
                                                   std::span<double> latency_ms) const;

  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace v1
}  // namespace infercast
