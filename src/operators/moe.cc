// Binding and querying routed expert computation.
#include "operators/moe.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>

#include "operators/measured_slice.h"

namespace infercast {

namespace {

constexpr std::uint32_t kFewTokens = 128;

// The curve of an operator in one of the two tables.
std::optional<GridView> CurveIn(const Table& table, const Moe& op) {
  const std::string_view quant = ToString(op.quant_mode);
  return table.Slice({quant, MeasuredDistribution(table, quant, op.workload_distribution), op.topk,
                      op.num_experts, op.hidden_size, op.inter_size, op.moe_tp_size,
                      op.moe_ep_size});
}

}  // namespace

BoundMoe::BoundMoe(const Moe& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      flops_(db.system().TensorCoreFlops(Profile(op.quant_mode).dtype)),
      attention_dp_(op.attention_dp_size),
      scale_factor_(op.scale_factor) {
  if (!flops_) return;
  roofline_ = {.shape = {op.hidden_size, op.inter_size, op.topk, op.num_experts},
               .tp = op.moe_tp_size,
               .ep = op.moe_ep_size,
               .products = ExpertProducts(op.is_gated),
               .flops = *flops_,
               .weight_bytes = Profile(op.quant_mode).memory,
               .bandwidth = db.system().mem_bw};
  if (db.IsSol()) return;

  const bool sglang = db.backend() == Backend::kSglang;
  balanced_prefill_ = sglang && op.enable_eplb && op.is_context;
  if (sglang && op.moe_backend == "deepep_moe") {
    refused_ =
        Error{ErrorKind::kPerfDatabase,
              "expert computation behind deepep_moe is no longer one measured block; use the "
              "expert compute and all-to-all operators"};
    return;
  }

  const std::string name =
      fmt::format("moe_perf {} {} topk={} experts={} hidden={} inter={} tp={} ep={}",
                  ToString(op.quant_mode), op.workload_distribution, op.topk, op.num_experts,
                  op.hidden_size, op.inter_size, op.moe_tp_size, op.moe_ep_size);
  const auto bind = [&](const Table& table) {
    const auto view = CurveIn(table, op);
    if (view && !view->empty()) {
      return MeasuredCurve(*view, name, MeasuredCurve::BelowSingle::kRefuse);
    }
    return MeasuredCurve(
        Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", name)});
  };
  const MoeEstimateSubject subject{op.quant_mode, op.workload_distribution, roofline_};

  const Result<const Table*> table = db.Get(TableId::kMoe);
  curve_ = table ? bind(**table) : MeasuredCurve(table.error());
  few_tokens_kernel_ = op.quant_mode == MoeQuant::kNvfp4 && op.is_gated;
  if (few_tokens_kernel_) {
    const Result<const Table*> few = db.Get(TableId::kMoeLowLatency);
    if (few) {
      few_tokens_ = bind(**few);
      if (few_tokens_.present()) few_tokens_estimate_.emplace(db, TableId::kMoeLowLatency, subject);
    } else if (!table) {
      few_tokens_unreadable_ = table.error();  // both stand in one file: it cannot be read at all
    }
  }
  estimate_.emplace(db, TableId::kMoe, subject);
}

Result<PerfResult> BoundMoe::Measured(std::uint32_t tokens) const {
  if (refused_) return std::unexpected(*refused_);
  const auto sol = [this](std::span<const double> c) { return roofline_.TimeAt(c[0]); };
  if (tokens <= kFewTokens && few_tokens_kernel_) {
    if (few_tokens_unreadable_) return std::unexpected(*few_tokens_unreadable_);
    if (few_tokens_.present()) return few_tokens_.Measured(tokens, sol);
  }
  return curve_.Measured(tokens, sol);
}

Result<PerfResult> BoundMoe::Estimated(std::uint32_t tokens) const {
  if (refused_) return std::unexpected(*refused_);
  const double sol = roofline_.At(tokens).Time();
  if (tokens <= kFewTokens && few_tokens_kernel_) {
    if (few_tokens_unreadable_) return std::unexpected(*few_tokens_unreadable_);
    if (few_tokens_estimate_) return few_tokens_estimate_->At(tokens, sol);
  }
  return estimate_->At(tokens, sol);
}

Result<PerfResult> BoundMoe::Query(const QueryContext& ctx) const {
  if (!flops_) return std::unexpected(flops_.error());
  const std::uint32_t tokens = GatheredTokens(ctx.num_tokens, attention_dp_);
  const std::uint32_t measured_tokens = balanced_prefill_ ? BalancedTokens(tokens) : tokens;
  // A hybrid query of a shape without any curve needs no text about what is missing.
  const bool has_curve =
      curve_.present() || (measured_tokens <= kFewTokens && few_tokens_.present());
  const DatabaseMode mode =
      mode_ == DatabaseMode::kHybrid && !has_curve ? DatabaseMode::kEmpirical : mode_;
  auto result = AnswerByMode(
      mode, [&] { return Measured(measured_tokens); }, [&] { return Estimated(tokens); },
      [&]() -> Result<PerfResult> {
        const MoeRoofline::Bounds bounds = roofline_.At(tokens);
        return PerfResult::Sol(bounds.math_ms, bounds.mem_ms);
      });
  if (!result) return result;
  result->Clamp();
  result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
