#include "operators/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "operators/gemm_estimate.h"
#include "operators/token_split.h"

namespace infercast {

namespace {

// Statically quantised products are measured as the dynamically quantised ones they derive from.
GemmQuant LookupFormat(GemmQuant quant) {
  return quant == GemmQuant::kFp8Static ? GemmQuant::kFp8 : quant;
}

// Takes `part` off `whole`; the speed-of-light pair survives only where both have one.
void Subtract(PerfResult& whole, const PerfResult& part) {
  whole.latency_ms -= part.latency_ms;
  whole.energy_wms -= part.energy_wms;
  whole.has_sol = whole.has_sol && part.has_sol;
  whole.sol_math_ms = whole.has_sol ? whole.sol_math_ms - part.sol_math_ms : 0.0;
  whole.sol_mem_ms = whole.has_sol ? whole.sol_mem_ms - part.sol_mem_ms : 0.0;
  whole.tier = std::max(whole.tier, part.tier);
  whole.origin = Origin::Weaker(whole.origin, part.origin);
}

}  // namespace

BoundGemm::BoundGemm(const Gemm& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      flops_(db.system().TensorCoreFlops(Profile(op.quant_mode).dtype)),
      n_(op.n),
      k_(op.k),
      scale_factor_(op.scale_factor),
      scale_num_tokens_(op.scale_num_tokens),
      seq_split_(op.seq_split) {
  if (!flops_) return;
  const GemmQuant lookup = LookupFormat(op.quant_mode);
  roofline_ = GemmRoofline::Of(op.quant_mode, *flops_, db.system().mem_bw);
  lookup_roofline_ = GemmRoofline::Of(lookup, *flops_, db.system().mem_bw);
  if (op.quant_mode == GemmQuant::kFp8Static) {
    static_quantisation_ = true;
    compute_scale_.emplace(db, QuantisationOverhead::Part::kComputeScale, k_);
    if (op.low_precision_input) {
      scale_matrix_.emplace(db, QuantisationOverhead::Part::kScaleMatrix, k_);
    }
  }
  if (db.IsSol()) return;

  if (mode_ != DatabaseMode::kEmpirical) {
    const std::string key = fmt::format("gemm {}", ToString(lookup));
    const auto slice = SliceOf(db.Get(TableId::kGemm), {ToString(lookup)}, key);
    slice_ = MeasuredSlice::Of(db, slice, -1, key);
    if (slice) {
      sites_ =
          store_->Memo<SiteIndex>("sites/" + key, [&] { return SiteIndex::BuildGemm(*slice); });
      plan_ = sites_->Prepare(std::array{n_, k_});
      below_grid_sol_ = op.below_grid_sol && mode_ == DatabaseMode::kSilicon;
    }
  }
  if (mode_ != DatabaseMode::kSilicon) estimate_ = GemmLadder(db, lookup);
}

Sought BoundGemm::Measured(double m) const {
  if (!sites_) return slice_.Seek({}, [](std::span<const double>) { return 0.0; });
  const ResolveResult found = sites_->Resolve(plan_, m, [this](std::span<const double> at) {
    return lookup_roofline_.Time(at[2], at[0], at[1]);
  });
  if (found) return Labelled(*slice_.view().table, *found);
  if (below_grid_sol_) {
    return PerfResult::Sol(roofline_.Math(m, n_, k_), roofline_.Memory(m, n_, k_));
  }
  return Sought(slice_, std::array{m, n_, k_}, found.error());
}

Result<PerfResult> BoundGemm::Base(double m) const {
  return AnswerByMode(
      mode_, [&] { return Measured(m); },
      [&] {
        return estimate_.At(std::array{m, n_, k_}, roofline_.Time(m, n_, k_), "matrix product");
      },
      [&]() -> Result<PerfResult> {
        return PerfResult::Sol(roofline_.Math(m, n_, k_), roofline_.Memory(m, n_, k_));
      });
}

Result<PerfResult> BoundGemm::WithoutQuantisation(double m) const {
  Result<PerfResult> result = Base(m);
  if (!result) return result;
  const Result<PerfResult> scale = compute_scale_->Query(m);
  if (!scale) return scale;
  Subtract(*result, *scale);
  if (scale_matrix_) {
    const Result<PerfResult> matrix = scale_matrix_->Query(m);
    if (!matrix) return matrix;
    Subtract(*result, *matrix);
  }
  const double math = roofline_.Math(m, n_, k_);
  const double memory = roofline_.Memory(m, n_, k_);
  const double floor = std::max(math, memory);
  if (result->latency_ms < floor) {
    result->latency_ms = floor;
    if (result->has_sol) {
      result->sol_math_ms = math;
      result->sol_mem_ms = memory;
    }
  }
  result->source = Source::kEstimated;
  return result;
}

Result<PerfResult> BoundGemm::QueryTokens(double m) const {
  if (!flops_) return std::unexpected(flops_.error());
  Result<PerfResult> result = static_quantisation_ ? WithoutQuantisation(m) : Base(m);
  if (result) result->Clamp();
  return result;
}

Result<PerfResult> BoundGemm::Query(const QueryContext& ctx) const {
  Result<PerfResult> result =
      QueryTokens(TokensOfRank(ctx.num_tokens, scale_num_tokens_, seq_split_));
  if (result) result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
