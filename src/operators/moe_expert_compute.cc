// Binding and querying expert computation under large expert parallelism.
#include "operators/moe_expert_compute.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "operators/moe_comm_backends.h"

namespace infercast {

namespace {

constexpr std::string_view kDeepEpKernel = "deepep_moe";

// The kernel that serves when the operator names none.
std::string ChooseKernel(const MoeExpertCompute& op, const Database& db) {
  if (db.backend() != Backend::kTrtllm) return std::string(kDeepEpKernel);
  const bool blocked_fp8 = ToString(op.quant_mode).find("fp8_block") != std::string_view::npos;
  const std::string preferred =
      db.system().IsBlackwell() && blocked_fp8 ? "deepgemm" : "moe_torch_flow";
  const Result<const Table*> table = db.Get(TableId::kMoeExpertCompute);
  if (!table || (*table)->Root().empty() || (*table)->Slice({preferred})) return preferred;
  return (*table)->TextAt(0, (*table)->Root().begin);  // first in ascending order
}

// The distribution whose measurements answer: the wanted one, the even one, or the first collected,
// whichever has this phase.
std::optional<GridView> ChooseDistribution(const Table& table, const GridView& distributions,
                                           std::string_view wanted, std::string_view phase) {
  if (const auto view = table.Slice(distributions, {wanted, phase})) return view;
  if (const auto view = table.Slice(distributions, {"uniform", phase})) return view;
  for (const std::uint32_t node : table.NodesByFirstAppearance(distributions)) {
    if (const auto view = table.Slice(distributions.Child(node), {phase})) return view;
  }
  return std::nullopt;
}

Result<GridView> FindCurve(const MoeExpertCompute& op, const Database& db, std::string_view kernel,
                           std::uint32_t slots) {
  IC_ASSIGN(const Table* table, db.Get(TableId::kMoeExpertCompute));
  const std::string_view quant = ToString(op.quant_mode);
  const auto distributions = table->Slice({kernel, quant});
  const auto shapes =
      distributions
          ? ChooseDistribution(*table, *distributions, op.workload_distribution, op.inference_phase)
          : std::nullopt;
  const auto curve = shapes ? table->Slice(*shapes, {op.topk, op.num_experts, slots, op.hidden_size,
                                                     op.inter_size, 1, op.moe_ep_size})
                            : std::nullopt;
  if (curve && !curve->empty()) return *curve;
  return Fail(
      ErrorKind::kPerfDatabase,
      fmt::format("no expert compute measurements for kernel {}, {}, {}, {}, topk={}, experts={}, "
                  "slots={}, hidden={}, inter={}, ep={}",
                  kernel, quant, op.workload_distribution, op.inference_phase, op.topk,
                  op.num_experts, slots, op.hidden_size, op.inter_size, op.moe_ep_size));
}

}  // namespace

BoundMoeExpertCompute::BoundMoeExpertCompute(const MoeExpertCompute& op, const Database& db)
    : mode_(db.mode()),
      attention_dp_(op.attention_dp_size),
      scale_factor_(op.scale_factor),
      store_(db.shared_store()) {
  const auto phase = ParseEnum<InferencePhase>(op.inference_phase);
  if (!phase) {
    error_ = Error{ErrorKind::kInvalidEngineConfig,
                   fmt::format("unknown inference phase \"{}\" (known: context, generation)",
                               op.inference_phase)};
    return;
  }
  if (mode_ != DatabaseMode::kSilicon && mode_ != DatabaseMode::kHybrid) {
    error_ = Error{ErrorKind::kEmpiricalNotImplemented,
                   "expert computation under large expert parallelism is known by measurement "
                   "only: use SILICON or HYBRID"};
    return;
  }
  const std::string kernel = op.kernel_source ? *op.kernel_source : ChooseKernel(op, db);
  balanced_ = op.enable_eplb && *phase == InferencePhase::kContext && kernel == kDeepEpKernel;

  // The bf16 rate times the format's factor, not the format's own rate.
  const QuantProfile profile = Profile(op.quant_mode);
  const Result<double> flops = db.system().TensorCoreFlops(ComputeDtype::kBfloat16);
  if (!flops) {
    error_ = flops.error();
    return;
  }
  const std::uint32_t slots = op.num_slots.value_or(op.num_experts);
  roofline_ = {.shape = {op.hidden_size, op.inter_size, op.topk, slots},
               .tp = 1,
               .ep = op.moe_ep_size,
               .products = ExpertProducts(op.is_gated),
               .flops = *flops * profile.compute,
               .weight_bytes = profile.memory,
               .bandwidth = db.system().mem_bw};

  const Result<GridView> curve = FindCurve(op, db, kernel, slots);
  curve_ = curve ? MeasuredCurve(*curve, fmt::format("moe_expert_compute {}", kernel),
                                 MeasuredCurve::BelowSingle::kRefuse)
                 : MeasuredCurve(curve.error());
  const bool damaged = !curve && !IsMissingData(curve.error().kind);
  if (db.backend() != Backend::kSglang && !damaged) {
    Moe moe;
    moe.name = op.name;
    moe.scale_factor = 1.0;
    moe.hidden_size = op.hidden_size;
    moe.inter_size = op.inter_size;
    moe.topk = op.topk;
    moe.num_experts = op.num_experts;
    moe.moe_tp_size = 1;
    moe.moe_ep_size = op.moe_ep_size;
    moe.attention_dp_size = 1;
    moe.quant_mode = op.quant_mode;
    moe.workload_distribution = op.workload_distribution;
    moe.is_gated = op.is_gated;
    substitute_.emplace(Substitute{std::move(moe), db.WithMode(DatabaseMode::kSilicon), {}});
  }
}

Result<PerfResult> BoundMoeExpertCompute::Measured(std::uint32_t tokens) const {
  if (curve_.present() || !substitute_) {
    auto result = curve_.Measured(
        tokens, [this](std::span<const double> c) { return roofline_.TimeAt(c[0]); });
    if (result) {
      result->energy_wms = 0;  // not measured
      return result;
    }
    if (!IsMissingData(result.error().kind)) return result;
    if (!substitute_) {
      if (mode_ != DatabaseMode::kHybrid) return result;
      return Fail(ErrorKind::kEmpiricalNotImplemented,
                  "no estimate exists for expert computation that was not measured: " +
                      result.error().message);
    }
  }
  const Substitute& s = *substitute_;
  const BoundMoe* bound = s.bound.Get([&] { return std::make_shared<const BoundMoe>(s.op, s.db); });
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return bound->Query(ctx);
}

Result<PerfResult> BoundMoeExpertCompute::Query(const QueryContext& ctx) const {
  if (error_) return std::unexpected(*error_);
  const std::uint32_t tokens = GatheredTokens(ctx.num_tokens, attention_dp_);
  auto result = Measured(balanced_ ? BalancedTokens(tokens) : tokens);
  if (result) result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
