// An attention/FFN-disaggregated deployment: its two workers, split and bound, priced step by step.
//
// Method: per layer, each side's work is the sum of its operators over the layers; the pipeline
// model turns the four times of a layer into a cycle. A prefill step is one cycle per layer; a
// decode step lets the first micro-batch through once and repeats the cycle for all others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "engine/breakdown.h"
#include "serving/afd_communication.h"
#include "serving/afd_partition.h"
#include "serving/afd_row.h"
#include "serving/worker.h"
#include "serving/workload.h"

namespace infercast {

struct AfdOptions {
  std::optional<double> memory_fraction;    // of GPU memory for the engine; default: backend's
  std::optional<std::int64_t> max_seq_len;  // KV length reserved per sequence
};

// Per-operator times of one phase, ms over all layers (transfers: per layer).
struct AfdPhaseBreakdown {
  Breakdown attention;
  Breakdown ffn;
  AfdTransfers transfers;
  MemoryUsage attention_memory;
  MemoryUsage ffn_memory;
};
struct AfdBreakdown {
  std::optional<AfdPhaseBreakdown> prefill, decode;
};

// Immutable; safe to share between threads.
class AfdDeployment {
 public:
  // `attention` and `ffn` are workers of the same model built for layout.AttentionParallel() and
  // layout.FfnParallel(). kInvalidArgument for an impossible layout or different draft depths,
  // kUnsupportedModel for a model that cannot be split.
  static Result<std::shared_ptr<const AfdDeployment>> Create(
      std::shared_ptr<const Worker> attention, std::shared_ptr<const Worker> ffn,
      const AfdLayout& layout);

  const AfdLayout& layout() const { return layout_; }
  const Worker& attention() const { return *attention_; }
  const Worker& ffn() const { return *ffn_; }
  const std::shared_ptr<const Worker>& attention_worker() const { return attention_; }
  const std::shared_ptr<const Worker>& ffn_worker() const { return ffn_; }

  // Rows that do not fit in memory are answered too; their verdicts tell. In reference behaviour
  // rounded as the reference reports it. kInvalidArgument for impossible workloads and schedules,
  // and the operators' own errors.
  Result<AfdRow> Evaluate(const Workload& workload, const AfdSchedule& schedule, AfdPhase phase,
                          const AfdOptions& options) const;
  // The same, by operator.
  Result<AfdBreakdown> Explain(const Workload& workload, const AfdSchedule& schedule,
                               AfdPhase phase, const AfdOptions& options) const;

  // Memory of one GPU of a side in one phase.
  enum class Side : std::uint8_t { kAttention, kFfn };
  // `batch` requests in a step, KV for `micro_batches` times as many on the attention side.
  Result<MemoryUsage> Memory(Side side, bool decode, std::int64_t batch, const Workload& workload,
                             std::int64_t micro_batches, const AfdOptions& options) const;

 private:
  AfdDeployment(std::shared_ptr<const Worker> attention, std::shared_ptr<const Worker> ffn,
                const AfdLayout& layout);

  struct Step;
  Result<AfdPhaseTimes> Prefill(const Workload& workload, const AfdSchedule& schedule) const;
  Result<AfdPhaseTimes> Decode(const Workload& workload, const AfdSchedule& schedule) const;
  Status CheckSizes(const Workload& workload, const AfdSchedule& schedule) const;

  std::shared_ptr<const Worker> attention_;
  std::shared_ptr<const Worker> ffn_;
  AfdLayout layout_;
  AfdCommunication communication_;
  AfdPartition attention_context_, attention_generation_, ffn_context_, ffn_generation_;
};

}  // namespace infercast
