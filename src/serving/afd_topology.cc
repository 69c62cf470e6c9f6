#include "serving/afd_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ordinals.h"

namespace infercast {

namespace {

// Keeps every product of sizes far from overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 20;

Status AtLeastOne(std::string_view what, std::int64_t value) {
  if (value >= 1 && value <= kLargest) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is {}: expected a number from 1 to {}", what, value, kLargest));
}

}  // namespace

ParallelLayout AfdLayout::AttentionParallel() const {
  ParallelLayout layout;
  layout.tp = attention_tp;
  layout.moe_tp = attention_tp;
  layout.moe_ep = 1;
  return layout;
}

ParallelLayout AfdLayout::FfnParallel() const {
  ParallelLayout layout;
  layout.tp = FfnGpus();
  layout.moe_tp = FfnGpus() / expert_parallel;
  layout.moe_ep = expert_parallel;
  return layout;
}

std::string AfdLayout::Text() const {
  return fmt::format("a{}n-tp{}+f{}n-ep{}", attention_nodes, attention_tp, ffn_nodes,
                     expert_parallel);
}

Status CheckAfdLayout(const AfdLayout& layout) {
  IC_RETURN_IF_ERROR(AtLeastOne("number of attention nodes", layout.attention_nodes));
  IC_RETURN_IF_ERROR(AtLeastOne("number of FFN nodes", layout.ffn_nodes));
  IC_RETURN_IF_ERROR(AtLeastOne("number of GPUs per node", layout.gpus_per_node));
  IC_RETURN_IF_ERROR(AtLeastOne("tensor-parallel size of attention", layout.attention_tp));
  IC_RETURN_IF_ERROR(AtLeastOne("expert-parallel size of the FFN side", layout.expert_parallel));
  if (layout.gpus_per_node % layout.attention_tp != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tensor-parallel size {} of attention does not divide the {} GPUs of a "
                            "node, and a worker stays within its node",
                            layout.attention_tp, layout.gpus_per_node));
  }
  if (layout.FfnGpus() % layout.expert_parallel != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("expert-parallel size {} does not divide the {} GPUs of the FFN side "
                            "({} nodes of {})",
                            layout.expert_parallel, layout.FfnGpus(), layout.ffn_nodes,
                            layout.gpus_per_node));
  }
  if (!std::isfinite(layout.comm_overhead) || layout.comm_overhead <= 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("communication overhead factor is {}: expected a positive number",
                            layout.comm_overhead));
  }
  return {};
}

std::int64_t AfdSchedule::MicroBatch() const {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(
          CeilDiv(static_cast<std::uint64_t>(std::max<std::int64_t>(batch, 0)),
                  static_cast<std::uint64_t>(std::max<std::int64_t>(micro_batches, 1)))),
      1);
}

Status CheckAfdSchedule(const AfdSchedule& schedule) {
  IC_RETURN_IF_ERROR(AtLeastOne("batch size of an attention worker", schedule.batch));
  return AtLeastOne("number of micro-batches", schedule.micro_batches);
}

AfdCycle CycleOf(const AfdSchedule& schedule, double attention, double ffn, double to_ffn,
                 double to_attention) {
  const double transfers = to_ffn + to_attention;
  const double slower = std::max(attention, ffn);
  const AfdCycle waiting{std::max(attention + to_ffn, ffn + to_attention), false};
  switch (schedule.pipeline) {
    case AfdPipeline::kSerial:
      return {attention + ffn + to_ffn + to_attention, false};
    case AfdPipeline::kConservative:
      return waiting;
    case AfdPipeline::kOptimistic: {
      // Two micro-batches keep both sides busy; the transfers need as many more as fit in a turn.
      const double needed = 2 + transfers / std::max(slower, 1e-9);
      if (static_cast<double>(schedule.micro_batches) < needed) return waiting;
      return {std::max(slower, transfers), transfers <= slower};
    }
  }
  return waiting;
}

}  // namespace infercast
