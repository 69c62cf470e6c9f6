// Look-ups in one measured curve.
#include "operators/measured_curve.h"

#include <fmt/format.h>

#include <utility>

#include "interpolation/curve.h"

namespace infercast {

MeasuredCurve::MeasuredCurve(const GridView& view, std::string name, BelowSingle below_single)
    : view_(view), name_(std::move(name)), below_single_(below_single) {}

Result<PerfResult> MeasuredCurve::Measured(double at, SolFunction sol) const {
  if (!view_) return std::unexpected(error_);
  const ResolveResult found = below_single_ == BelowSingle::kRefuse
                                  ? ResolveCurveNoSingletonUnderflow(*view_, at, sol)
                                  : ResolveCurve(*view_, at, sol);
  if (!found) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("{}: no measured point to answer {}={} from ({})", name_,
                            view_->table->levels[view_->level].name, at, ToString(found.error())));
  }
  const OriginKind kind = found->kind == ResolveKind::kPoint          ? OriginKind::kPoint
                          : found->kind == ResolveKind::kInterpolated ? OriginKind::kInterpolated
                                                                      : OriginKind::kExtrapolated;
  PerfResult result = PerfResult::Of(found->latency, found->energy, Source::kSilicon, kind);
  result.origin.octaves = found->octaves;
  const Table& table = *view_->table;
  if (!table.source.empty()) result.origin.source = &table.sources[table.source[found->leaf]];
  return result;
}

}  // namespace infercast
