// Binding and querying TensorRT-LLM's all-to-all.
#include "operators/trtllm_all_to_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace infercast {

namespace {

constexpr std::string_view kKernel = "NVLinkOneSided";  // what this generation of GPUs runs
constexpr std::uint32_t kGpusPerNode = 4;               // as the measurements count nodes

}  // namespace

TrtllmAllToAll::TrtllmAllToAll(const MoeDispatch& op, const Database& db)
    : store_(db.shared_store()), mode_(db.mode()) {
  const std::uint32_t ep = op.moe_ep_size;
  const std::uint32_t nodes = ep < kGpusPerNode ? 1 : ep / kGpusPerNode;
  link_ = {.copies = static_cast<double>(std::min({op.topk, op.num_experts, ep > 0 ? ep - 1 : 0})),
           .hidden = static_cast<double>(op.hidden_size),
           .bytes_per_element = op.pre_dispatch ? Profile(op.moe_quant).memory : 2.0,
           .bandwidth = nodes > 1 ? db.system().inter_node_bw : db.system().intra_node_bw};
  if (db.IsSol()) return;

  const MoeQuant quant = op.moe_quant == MoeQuant::kFp8Block ? MoeQuant::kFp8 : op.moe_quant;
  const std::string_view direction = op.pre_dispatch ? "alltoall_dispatch" : "alltoall_combine";
  const std::string key =
      fmt::format("trtllm_alltoall/{}/{}/{}/{}/{},{},{},{}", kKernel, direction, ToString(quant),
                  nodes, op.hidden_size, op.topk, op.num_experts, ep);
  const Result<GridView> slice = SliceOf(
      db.Get(TableId::kTrtllmAllToAll),
      {kKernel, direction, ToString(quant), nodes, op.hidden_size, op.topk, op.num_experts, ep},
      key);
  if (!slice) {
    curve_ = MeasuredCurve(slice.error());
    calibration_ = Calibration(slice.error());
    return;
  }
  curve_ = MeasuredCurve(*slice, key, MeasuredCurve::BelowSingle::kHold);
  calibration_ = Calibration(
      db, fmt::format("util/{}/{}", key, link_.bytes_per_element), [view = *slice, link = link_] {
        return UtilGrid::Build(
            view, [&](std::span<const double> tokens) { return link.Time(tokens[0]); });
      });
}

Result<PerfResult> TrtllmAllToAll::Query(std::uint32_t tokens) const {
  const double t = tokens;
  return AnswerByMode(
      mode_, [&] { return curve_.Measured(t, [](std::span<const double> c) { return c[0]; }); },
      [&] {
        return calibration_.Estimate(std::span(&t, 1), link_.Time(t), "TensorRT-LLM all-to-all");
      },
      [&]() -> Result<PerfResult> {
        return PerfResult::Of(link_.Time(t), 0, Source::kSol, OriginKind::kSpeedOfLight);
      });
}

}  // namespace infercast
