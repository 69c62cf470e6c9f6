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

Sought MeasuredSlice::Seek(std::span<const double> coords, SolFunction sol) const {
  if (!view_) return Sought(error_);
  const ResolveResult found = ResolveGrid(*view_, coords, sqrt_axis_, sol, hold_.get());
  if (!found) return Sought(*this, coords, found.error());
  return Labelled(*view_->table, *found);
}

Error MeasuredSlice::Explain(std::span<const double> coords, Miss miss) const {
  std::string at;
  for (std::size_t i = 0; i < coords.size(); ++i) {
    at += fmt::format("{}{}={}", i == 0 ? "" : ", ", view_->table->levels[view_->level + i].name,
                      coords[i]);
  }
  return {ErrorKind::kPerfDatabase, fmt::format("{}: no measured point to answer {{{}}} from ({})",
                                                key_, at, ToString(miss))};
}

Result<PerfResult> Sought::ToResult() && {
  if (error_ != nullptr) return std::unexpected(*error_);
  if (slice_ != nullptr) {
    return std::unexpected(slice_->Explain(std::span(coords_).first(axes_), miss_));
  }
  return std::move(answer_);
}

PerfResult Labelled(const Table& table, const Resolved& value) {
  PerfResult result =
      PerfResult::Of(value.latency, value.energy, Source::kSilicon, KindOf(value.kind));
  result.origin.octaves = value.octaves;
  if (!table.source.empty()) result.origin.source = &table.sources[table.source[value.leaf]];
  return result;
}

Calibration::Calibration(Error error) {
  if (!IsMissingData(error.kind)) error_ = std::move(error);
}

Calibration::Calibration(const Database& db, std::string key, Build build)
    : store_(db.shared_store()), key_(std::move(key)), build_(std::move(build)) {}

const UtilGrid* Calibration::Samples() const {
  if (!build_) return nullptr;
  return grid_.Get([this] { return store_->Memo<UtilGrid>(key_, build_); });
}

bool Calibration::usable() const {
  if (error_) return true;
  const UtilGrid* grid = Samples();
  return grid != nullptr && !grid->empty();
}

Result<PerfResult> Calibration::Estimate(std::span<const double> x, double sol, const char* what,
                                         double scale, Tier tier, const std::string* donor) const {
  if (error_) return std::unexpected(*error_);
  IC_ASSIGN(const double latency, EstimateFromUtilisation(Samples(), x, sol, scale, what));
  PerfResult result =
      PerfResult::Of(latency, 0, Source::kEmpirical,
                     tier > Tier::kEmpirical ? OriginKind::kTransferred : OriginKind::kEstimated);
  result.tier = tier;
  result.origin.donor = donor;
  return result;
}

Result<GridView> SliceOf(const Result<const Table*>& table, std::initializer_list<Table::Key> keys,
                         std::string_view key) {
  if (!table) return std::unexpected(table.error());
  if (const auto view = (*table)->Slice(keys)) return *view;
  return Fail(ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", key));
}

}  // namespace infercast
