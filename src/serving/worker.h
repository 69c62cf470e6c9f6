// A worker: one engine instance of a model on tp * pp * dp * cp GPUs, with its memory model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "memory/memory_usage.h"
#include "models/compile.h"
#include "models/model_plan.h"
#include "serving/rows.h"
#include "serving/workload.h"

namespace infercast {

// Immutable; safe to share between threads.
class Worker {
 public:
  // Binds a plan's operators to a database. kModelConfig when the system has no memory capacity.
  static Result<std::shared_ptr<const Worker>> Create(ModelPlan plan, const Database& db,
                                                      const AttentionLaneOrders& lanes = {});

  const ModelPlan& plan() const { return plan_; }
  const Engine& engine() const { return *engine_; }
  const SystemSpec& system() const { return engine_->database().system(); }
  const WorkerIdentity& identity() const { return identity_; }
  const MemoryModel& memory() const { return memory_; }
  Backend backend() const { return plan_.backend; }
  std::int64_t capacity_bytes() const { return capacity_; }
  Behaviour behaviour() const { return engine_->database().behaviour(); }

  std::int64_t VisualTokensOf(const Workload& workload) const;
  // Cost of the encoder for `batch` requests; empty without encoder or images.
  Result<Breakdown> Encode(const Workload& workload, std::int64_t batch) const;

 private:
  ModelPlan plan_;
  std::shared_ptr<const Engine> engine_;
  std::vector<BoundOperator> encoder_;
  WorkerIdentity identity_;
  MemoryModel memory_;
  std::int64_t capacity_ = 0;
};

// Limits that every evaluation shares.
struct EvaluationOptions {
  std::optional<double> memory_fraction;    // of GPU memory for the engine; default: backend's
  std::optional<std::int64_t> max_seq_len;  // KV length reserved per sequence
  std::int64_t max_num_tokens = 8192;       // trtllm's token budget of a step
  std::optional<double> decode_progress;    // tokens per decode iteration, in [1, nextn + 1]
  std::uint32_t stride = kDecodeStride;     // static only
  double latency_correction = 1.0;          // static only
};

// One static batch: all requests prefill together, then decode together.
// kInvalidArgument for sizes below 1 or beyond 2^31.
Result<StaticRow> EvaluateStatic(const Worker& worker, const Workload& workload, std::int64_t batch,
                                 StaticMode mode, const EvaluationOptions& options);

// Continuous batching with `batch` requests in flight and `ctx_tokens` prefill tokens a step.
Result<AggregatedRow> EvaluateAggregated(const Worker& worker, const Workload& workload,
                                         std::int64_t batch, std::int64_t ctx_tokens,
                                         const EvaluationOptions& options);

}  // namespace infercast
