// Look-ups and estimates over one slice of a measured grid.
#include "operators/measured_slice.h"

#include <fmt/format.h>

namespace infercast {

namespace {

OriginKind KindOf(ResolveKind kind) {
  switch (kind) {
    case ResolveKind::kPoint:
      return OriginKind::kPoint;
    case ResolveKind::kInterpolated:
      return OriginKind::kInterpolated;
    case ResolveKind::kExtrapolated:
      return OriginKind::kExtrapolated;
  }
  std::unreachable();
}

}  // namespace

MeasuredSlice::MeasuredSlice(Error error) : error_(std::move(error)) {}

MeasuredSlice::MeasuredSlice(const Database& db, const GridView& view, int sqrt_axis,
                             std::string key)
    : view_(view), sqrt_axis_(sqrt_axis), key_(std::move(key)) {
  if (db.mode() == DatabaseMode::kSilicon || db.mode() == DatabaseMode::kHybrid) {
    hold_ = db.store().Memo<HoldIndex>("hold/" + key_, [&] { return HoldIndex::Build(view); });
  }
}

MeasuredSlice MeasuredSlice::Of(const Database& db, const Result<GridView>& slice, int sqrt_axis,
                                std::string key) {
  if (!slice) return MeasuredSlice(slice.error());
  return MeasuredSlice(db, *slice, sqrt_axis, std::move(key));
}

Result<PerfResult> MeasuredSlice::Measured(std::span<const double> coords, SolFunction sol) const {
  if (!view_) return std::unexpected(error_);
  const ResolveResult found = ResolveGrid(*view_, coords, sqrt_axis_, sol, hold_.get());
  if (!found) {
    std::string at;
    for (std::size_t i = 0; i < coords.size(); ++i) {
      at += fmt::format("{}{}={}", i == 0 ? "" : ", ", view_->table->levels[view_->level + i].name,
                        coords[i]);
    }
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("{}: no measured point to answer {{{}}} from ({})", key_, at,
                            ToString(found.error())));
  }
  PerfResult result =
      PerfResult::Of(found->latency, found->energy, Source::kSilicon, KindOf(found->kind));
  result.origin.octaves = found->octaves;
  const Table& table = *view_->table;
  if (!table.source.empty()) result.origin.source = &table.sources[table.source[found->leaf]];
  return result;
}

Calibration::Calibration(Error error) {
  if (!IsMissingData(error.kind)) error_ = std::move(error);
}

Calibration::Calibration(const Database& db, std::string key, Build build)
    : store_(db.shared_store()), key_(std::move(key)), build_(std::move(build)) {}

Result<PerfResult> Calibration::Estimate(std::span<const double> x, double sol,
                                         const char* what) const {
  if (error_) return std::unexpected(*error_);
  const UtilGrid* grid = nullptr;
  if (build_) {
    grid = grid_.Get([this] { return store_->Memo<UtilGrid>(key_, build_); });
  }
  IC_ASSIGN(const double latency, EstimateFromUtilisation(grid, x, sol, 1.0, what));
  PerfResult result = PerfResult::Of(latency, 0, Source::kEmpirical, OriginKind::kEstimated);
  result.tier = Tier::kEmpirical;
  return result;
}

Result<GridView> SliceOf(const Result<const Table*>& table, std::initializer_list<Table::Key> keys,
                         std::string_view key) {
  if (!table) return std::unexpected(table.error());
  if (const auto view = (*table)->Slice(keys)) return *view;
  return Fail(ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", key));
}

}  // namespace infercast
