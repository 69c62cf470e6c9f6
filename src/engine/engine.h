// Engine: a model's operators bound to a performance database, priced step by step.
//
// Immutable after Bind, safe to share between threads. All inputs are per rank: data parallelism
// does not appear here (operators that need the whole group's tokens multiply inside). Pipeline
// stages are summed. Latencies are plain left-to-right sums in operator order.
//
// Scalar calls neither allocate nor lock on success.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/breakdown.h"
#include "engine/engine_spec.h"
#include "operators/bound_operator.h"
#include "tables/database.h"

namespace infercast {

// A static batch. Token counts per rank.
struct RuntimeShape {
  std::uint32_t batch_size = 1;
  std::uint32_t beam_width = 1;
  std::uint32_t isl = 1;     // input tokens, cached ones included
  std::uint32_t osl = 1;     // generated tokens
  std::uint32_t prefix = 0;  // cached input tokens
  double context_imbalance = 1.0;
  double generation_imbalance = 1.0;
};

enum class StaticMode : std::uint8_t { kBoth, kContext, kGeneration };

// Decode latency is sampled every so many tokens; the left end of each stretch stands for it.
inline constexpr std::uint32_t kDecodeStride = 32;

struct StaticCost {
  StepCost context;
  StepCost generation;
  double total_ms() const { return context.latency_ms + generation.latency_ms; }
};
struct StaticBreakdown {
  Breakdown context;
  Breakdown generation;
};

// An iteration of a continuous batch: `context_tokens` of prefill beside `decodes` requests. In
// native behaviour it costs at least the larger of its prefill (decodes = 0) and its decode step,
// and at most their sum (joint_step.h).
struct MixedShape {
  std::uint32_t context_tokens = 0;
  std::uint32_t decodes = 0;
  std::uint32_t isl = 1;
  std::uint32_t osl = 1;
  std::uint32_t prefix = 0;
  double context_imbalance = 1.0;
  double generation_imbalance = 1.0;
};
struct MixedCost {
  // Everything but attention, over all tokens of the step. What counts as attention in native
  // behaviour includes recurrent states and blocks that contain attention; in reference behaviour
  // it is the operators of that name.
  StepCost shared;
  StepCost context_attention;
  StepCost decode_attention;
  double total_ms() const {
    return (shared.latency_ms + context_attention.latency_ms) + decode_attention.latency_ms;
  }
  double energy_wms() const {
    return (shared.energy_wms + context_attention.energy_wms) + decode_attention.energy_wms;
  }
};
struct MixedBreakdown {
  Breakdown shared;
  Breakdown context_attention;
  Breakdown decode_attention;
};

// What one rank ran in an observed forward pass.
struct ScheduledRequests {
  std::uint32_t num_prefill_requests = 0;
  std::uint32_t sum_prefill_tokens = 0;
  std::uint32_t sum_prefill_kv_tokens = 0;
  std::uint32_t num_decode_requests = 0;
  std::uint32_t sum_decode_kv_tokens = 0;
};

class JointStep;

class Engine {
 public:
  // Binds the operators. kInvalidEngineConfig when whole-forward operators are mixed with others.
  static Result<std::shared_ptr<const Engine>> Bind(const EngineSpec& spec, const Database& db);

  // Opens the spec's own database: `systems_root` is used unless the spec names one.
  // kUnsupportedSchemaVersion, kInvalidEngineConfig, kPerfDatabase (no such data), kIo, kYaml.
  static Result<std::shared_ptr<const Engine>> Open(const EngineSpec& spec,
                                                    const std::filesystem::path& systems_root,
                                                    Behaviour behaviour);

  const Database& database() const { return db_; }
  std::uint32_t nextn() const { return nextn_; }
  bool is_whole_forward() const { return whole_prefill_ != nullptr; }
  std::span<const BoundOperator> context_ops() const { return context_; }
  std::span<const BoundOperator> generation_ops() const { return generation_; }

  // --- static batches ---
  Result<StaticCost> RunStatic(const RuntimeShape& shape, StaticMode mode = StaticMode::kBoth,
                               std::uint32_t stride = kDecodeStride) const;
  Result<StaticBreakdown> ExplainStatic(const RuntimeShape& shape,
                                        StaticMode mode = StaticMode::kBoth,
                                        std::uint32_t stride = kDecodeStride) const;
  Result<double> PredictPrefill(std::uint32_t batch, std::uint32_t isl, std::uint32_t prefix) const;
  Result<double> PredictDecode(std::uint32_t batch, std::uint32_t isl, std::uint32_t osl = 2) const;

  // --- steps of a continuous batch ---
  Result<MixedCost> MixedStep(const MixedShape& shape) const;
  Result<MixedBreakdown> ExplainMixedStep(const MixedShape& shape) const;
  // Decode-only step of `decodes` requests halfway through their output.
  Result<StepCost> DecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                              double generation_imbalance = 1.0) const;
  Result<Breakdown> ExplainDecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                                      double generation_imbalance = 1.0) const;

  // --- observed forward passes: the slowest rank, ms ---
  Result<double> ObservedForwardPass(std::span<const ScheduledRequests> ranks) const;

  // --- walks over parts of the lists, for callers with their own composition ---
  enum class Filter : std::uint8_t { kAll, kSkipAttention, kOnlyAttention };
  // One prefill pass of `batch` requests of `s` new tokens each behind `prefix` cached ones.
  // `x` overrides the token count of token-major operators.
  Result<StepCost> ContextPass(std::uint32_t batch, std::uint32_t s, std::uint32_t prefix,
                               double imbalance, Filter filter = Filter::kAll,
                               std::optional<std::uint32_t> x = std::nullopt) const;
  // One decode pass of `batch` requests at KV length `s`.
  Result<StepCost> GenerationPass(std::uint32_t batch, std::uint32_t beam, std::uint32_t s,
                                  double imbalance, Filter filter = Filter::kAll,
                                  std::uint32_t prefix = 0,
                                  std::optional<std::uint32_t> x = std::nullopt) const;
  Result<Breakdown> EvaluateContextOps(std::span<const std::size_t> indices, std::uint32_t batch,
                                       std::uint32_t s, std::uint32_t prefix, double imbalance,
                                       std::optional<std::uint32_t> x) const;
  Result<Breakdown> EvaluateGenerationOps(std::span<const std::size_t> indices, std::uint32_t batch,
                                          std::uint32_t s, double imbalance, std::uint32_t prefix,
                                          std::optional<std::uint32_t> x) const;

 private:
  explicit Engine(Database db) : db_(std::move(db)) {}

  template <typename Sink>
  Status StaticPhases(const RuntimeShape& shape, StaticMode mode, std::uint32_t stride,
                      Sink&& sink) const;
  template <typename Parts>
  Status MixedParts(const MixedShape& shape, Parts& parts) const;
  template <typename Sink>
  Status DecodeParts(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                     double generation_imbalance, Sink& sink) const;
  Result<StepCost> WholeGeneration(std::uint32_t batch, std::uint32_t isl, std::uint32_t osl) const;
  Result<MixedCost> WholeMixedStep(const MixedShape& shape) const;
  Result<double> ObservedRank(const ScheduledRequests& r) const;

  Database db_;
  std::vector<BoundOperator> context_;
  std::vector<BoundOperator> generation_;
  const BoundFpmForward* whole_prefill_ = nullptr;
  const BoundFpmForward* whole_decode_ = nullptr;
  std::shared_ptr<const JointStep> joint_;  // native behaviour, operators only
  std::uint32_t nextn_ = 0;
};

// Contexts of the two phases as operators see them.
QueryContext ContextQuery(const BoundOperator& op, std::uint32_t batch, std::uint32_t s,
                          std::uint32_t prefix, double imbalance, std::optional<std::uint32_t> x);
QueryContext GenerationQuery(std::uint32_t batch, std::uint32_t beam, std::uint32_t s,
                             double imbalance, std::uint32_t prefix,
                             std::optional<std::uint32_t> x);

}  // namespace infercast
