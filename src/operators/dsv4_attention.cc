// DeepSeek-V4 attention modules: slice selection, measured look-up with the top-k difference taken
// out, and utilisation estimates.
#include "operators/dsv4_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace infercast {

namespace {

std::string_view KindName(Dsv4AttentionKind kind) { return ToString(kind); }

// The head count that stands for `request`: itself, the only one, the largest below it, or the
// smallest.
std::uint32_t ResolveHeads(const GridView& view, std::uint32_t request) {
  const auto keys = view.keys();
  const auto above = std::upper_bound(keys.begin(), keys.end(), static_cast<double>(request));
  const auto index = above == keys.begin() ? 0 : above - keys.begin() - 1;
  return view.begin + static_cast<std::uint32_t>(index);
}

struct Selection {
  Result<GridView> slice;
  std::string key;
  bool borrowed = false;
};

Selection Select(const Dsv4Module& op, bool context, const Database& db) {
  const bool indexed = op.attn_kind == Dsv4AttentionKind::kCsa;
  const TableId id = context
                         ? (indexed ? TableId::kDsv4CsaContext : TableId::kDsv4HcaContext)
                         : (indexed ? TableId::kDsv4CsaGeneration : TableId::kDsv4HcaGeneration);
  std::string key =
      fmt::format("dsv4/{}/{}/{}/{}/{}", KindName(op.attn_kind), context ? "context" : "generation",
                  context ? ToString(op.fmha_quant_mode) : "-", ToString(op.kv_cache_dtype),
                  ToString(op.gemm_quant_mode));
  const auto table = db.Get(id);
  Result<GridView> slice =
      context ? SliceOf(table,
                        {ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                         ToString(op.gemm_quant_mode)},
                        key)
              : SliceOf(table, {ToString(op.kv_cache_dtype), ToString(op.gemm_quant_mode)}, key);
  if (!slice) return {std::move(slice), std::move(key)};
  bool borrowed = false;
  for (const std::uint32_t request : {op.native_heads, op.num_heads}) {
    const std::uint32_t node = ResolveHeads(*slice, request);
    const double heads = slice->table->levels[slice->level].keys[node];
    borrowed = borrowed || heads != request;
    key += fmt::format("/{}", heads);
    slice = slice->Child(node);
  }
  return {std::move(slice), std::move(key), borrowed};
}

// Everything of an operator that enters its roofline, for memo keys.
std::string RooflineKey(const Dsv4Module& op, bool context) {
  return fmt::format("{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}", KindName(op.attn_kind),
                     context ? ToString(op.fmha_quant_mode) : "-", ToString(op.kv_cache_dtype),
                     ToString(op.gemm_quant_mode), op.num_heads, op.window_size.value_or(128),
                     op.hidden_size, op.q_lora_rank, op.o_lora_rank, op.head_dim, op.rope_head_dim,
                     op.index_n_heads, op.index_head_dim, op.index_topk, op.o_groups.has_value(),
                     op.o_groups.value_or(0));
}

PerfResult SpeedOfLight(double latency) {
  return PerfResult::Of(latency, 0.0, Source::kSol, OriginKind::kSpeedOfLight);
}

void MarkBorrowed(PerfResult& result, bool borrowed, const std::string& donor) {
  if (!borrowed) return;
  result.origin.kind = OriginKind::kTransferred;
  result.origin.donor = &donor;
}

constexpr const char* kWhat = "DeepSeek-V4 attention module";

}  // namespace

BoundDsv4Context::BoundDsv4Context(const Dsv4Context& op, const Database& db)
    : mode_(db.mode()),
      scale_factor_(op.scale_factor),
      roofline_(Dsv4Roofline::Of(op, true, db)),
      slice_(Error{}) {
  if (!roofline_) return;
  if (op.cp_size > 1) split_ = std::make_shared<const Dsv4ContextSplit>(op, db);
  if (db.IsSol()) return;  // the module's tables stay closed
  Selection selection = Select(op, true, db);
  borrowed_ = selection.borrowed;
  if (op.attn_kind == Dsv4AttentionKind::kCsa) {
    correction_ = TopkCorrection(db, op.native_heads, TopkCorrection::Variant::kContext);
  }
  if (selection.slice) {
    const GridView view = *selection.slice;
    const auto prefixes = view.keys();
    if (prefixes.size() >= 2) prefixes_.emplace(prefixes.front(), prefixes.back());
    const std::string util = fmt::format("util/{}/{}", selection.key, RooflineKey(op, true));
    with_prefix_ = Calibration(db, util, [view, roofline = *roofline_] {
      return UtilGrid::Build(view, [&](std::span<const double> at) {
        return roofline.Milliseconds(at[2], at[1], at[0]);
      });
    });
    if (const auto no_prefix = view.Find(0.0)) {
      without_prefix_ =
          Calibration(db, util + "/0", [grid = view.Child(*no_prefix), roofline = *roofline_] {
            return UtilGrid::Build(grid, [&](std::span<const double> at) {
              return roofline.Milliseconds(at[1], at[0], 0.0);
            });
          });
    }
  } else {
    without_prefix_ = Calibration(selection.slice.error());
  }
  slice_ = MeasuredSlice::Of(db, selection.slice, -1, std::move(selection.key));
}

Result<PerfResult> BoundDsv4Context::Measured(double batch, double s, double prefix) const {
  const std::array<double, 3> at = {prefix, s, batch};
  Result<PerfResult> result = slice_.Measured(
      at, [this](std::span<const double> c) { return roofline_->Milliseconds(c[2], c[1], c[0]); });
  if (result) {
    correction_.Apply(prefix, s, batch, result->latency_ms, result->energy_wms);
    MarkBorrowed(*result, borrowed_, slice_.key());
  }
  return result;
}

Result<PerfResult> BoundDsv4Context::Estimated(double batch, double s, double prefix) const {
  const double sol = roofline_->Milliseconds(batch, s, prefix);
  if (prefixes_ && prefix >= prefixes_->first && prefix <= prefixes_->second) {
    const std::array<double, 3> at = {prefix, s, batch};
    return with_prefix_.Estimate(at, sol, kWhat);
  }
  // Cached tokens count as if they were new, against measurements without any.
  const std::array<double, 2> at = {s + prefix, batch};
  return without_prefix_.Estimate(at, sol, kWhat);
}

Result<PerfResult> BoundDsv4Context::Module(double batch, double s, double prefix) const {
  return AnswerByMode(
      mode_, [&] { return Measured(batch, s, prefix); },
      [&] {
        Result<PerfResult> result = Estimated(batch, s, prefix);
        if (result) MarkBorrowed(*result, borrowed_, slice_.key());
        return result;
      },
      [&]() -> Result<PerfResult> {
        return SpeedOfLight(roofline_->Milliseconds(batch, s, prefix));
      });
}

Result<PerfResult> BoundDsv4Context::Query(const QueryContext& ctx) const {
  if (!roofline_) return std::unexpected(roofline_.error());
  if (split_) {
    IC_ASSIGN(const PerfResult base,
              Module(ctx.batch_size, split_->TokensPerRank(ctx.s), ctx.prefix));
    IC_ASSIGN(const double latency,
              split_->Latency(base.latency_ms, ctx.batch_size, ctx.s, ctx.prefix));
    PerfResult result = PerfResult::Of(latency, 0.0, Source::kEstimated, OriginKind::kSubstituted);
    result.tier = base.tier;
    result.origin = Origin::Weaker(result.origin, base.origin);
    result.Scale(scale_factor_);
    return result;
  }
  Result<PerfResult> result = Module(ctx.batch_size, ctx.s, ctx.prefix);
  if (result) {
    result->Clamp();
    result->Scale(scale_factor_);
  }
  return result;
}

BoundDsv4Generation::BoundDsv4Generation(const Dsv4Generation& op, const Database& db)
    : mode_(db.mode()),
      scale_factor_(op.scale_factor),
      roofline_(Dsv4Roofline::Of(op, false, db)),
      slice_(Error{}) {
  if (!roofline_ || db.IsSol()) return;
  Selection selection = Select(op, false, db);
  borrowed_ = selection.borrowed;
  if (op.attn_kind == Dsv4AttentionKind::kCsa) {
    correction_ = TopkCorrection(db, op.native_heads, TopkCorrection::Variant::kGeneration);
  }
  if (selection.slice) {
    calibration_ = Calibration(db, fmt::format("util/{}/{}", selection.key, RooflineKey(op, false)),
                               [view = *selection.slice, roofline = *roofline_] {
                                 return UtilGrid::Build(view, [&](std::span<const double> at) {
                                   return roofline.Milliseconds(at[0], at[1], 0.0);
                                 });
                               });
  } else {
    calibration_ = Calibration(selection.slice.error());
  }
  slice_ = MeasuredSlice::Of(db, selection.slice, -1, std::move(selection.key));
}

Result<PerfResult> BoundDsv4Generation::Measured(double batch, double s) const {
  const std::array<double, 2> at = {batch, s};
  Result<PerfResult> result = slice_.Measured(
      at, [this](std::span<const double> c) { return roofline_->Milliseconds(c[0], c[1], 0.0); });
  if (result) {
    correction_.Apply(std::max(s - 1.0, 0.0), 1.0, batch, result->latency_ms, result->energy_wms);
  }
  return result;
}

Result<PerfResult> BoundDsv4Generation::Query(const QueryContext& ctx) const {
  if (!roofline_) return std::unexpected(roofline_.error());
  const double batch = ctx.batch_size;
  const double s = ctx.s;
  const double sol = mode_ == DatabaseMode::kSilicon ? 0.0 : roofline_->Milliseconds(batch, s, 0.0);
  Result<PerfResult> result = AnswerByMode(
      mode_, [&] { return Measured(batch, s); },
      [&] {
        const std::array<double, 2> at = {batch, s};
        return calibration_.Estimate(at, sol, kWhat);
      },
      [&]() -> Result<PerfResult> { return SpeedOfLight(sol); });
  if (result) {
    if (slice_.present()) MarkBorrowed(*result, borrowed_, slice_.key());
    result->Clamp();
    result->Scale(scale_factor_);
  }
  return result;
}

}  // namespace infercast
