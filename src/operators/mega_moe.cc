// Binding and querying the fused routed block.
#include "operators/mega_moe.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace infercast {

namespace {

MeasuredCurve FindCurve(const Dsv4MegaMoe& op, const Database& db) {
  if (!db.system().IsBlackwell()) {
    return MeasuredCurve(Error{
        ErrorKind::kModelConfig,
        fmt::format("the fused DeepSeek-V4 expert block needs compute capability 10.0 or newer; {} "
                    "is older",
                    db.system().name)});
  }
  if (db.mode() != DatabaseMode::kSilicon && db.mode() != DatabaseMode::kHybrid) {
    return MeasuredCurve(Error{ErrorKind::kPerfDatabase,
                               "the fused DeepSeek-V4 expert block is known by measurement only"});
  }
  const Result<const Table*> table = db.Get(TableId::kMegaMoe);
  if (!table) return MeasuredCurve(table.error());
  const std::string_view phase = op.is_context ? "context" : "generation";
  const std::string_view distribution = op.workload_distribution == "uniform"
                                            ? "balanced"
                                            : std::string_view(op.workload_distribution);
  const std::string name = fmt::format(
      "dsv4_megamoe_module_perf {} {} {} {} {} {} {} topk={} experts={}+{} hidden={} inter={} "
      "tp={} "
      "ep={}",
      phase, op.kernel_source, op.kernel_dtype, ToString(op.quant_mode), op.pre_dispatch,
      op.source_policy, distribution, op.topk, op.num_experts, op.num_fused_shared_experts,
      op.hidden_size, op.inter_size, op.moe_tp_size, op.moe_ep_size);
  const auto curve = (*table)->Slice(
      {phase, op.kernel_source, op.kernel_dtype, ToString(op.quant_mode), op.pre_dispatch,
       op.source_policy, distribution, op.topk, op.num_experts, op.num_fused_shared_experts,
       op.hidden_size, op.inter_size, op.moe_tp_size, op.moe_ep_size});
  if (!curve || curve->empty()) {
    return MeasuredCurve(
        Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", name)});
  }
  return MeasuredCurve(*curve, name, MeasuredCurve::BelowSingle::kHold);
}

}  // namespace

BoundDsv4MegaMoe::BoundDsv4MegaMoe(const Dsv4MegaMoe& op, const Database& db)
    : store_(db.shared_store()), curve_(FindCurve(op, db)), scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundDsv4MegaMoe::Query(const QueryContext& ctx) const {
  auto result =
      curve_.Measured(ctx.num_tokens, [](std::span<const double> tokens) { return tokens[0]; });
  if (result) result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
