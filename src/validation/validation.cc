#include "validation/validation.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "validation/families.h"

namespace infercast {

namespace {

double MedianOf(std::vector<double>& v) {
  if (v.empty()) return 0;
  std::ranges::sort(v);
  return SortedQuantile(v, 0.5);
}

class FigureTally {
 public:
  void Add(double predicted, std::optional<double> measured, const Interval& interval) {
    if (!measured || !(*measured > 0) || !(predicted > 0)) return;
    const double ratio = predicted / *measured;
    ratios_.push_back(ratio);
    apes_.push_back(100 * std::abs(ratio - 1));
    if (*measured >= interval.low && *measured <= interval.high) ++within_;
  }
  FigureScore Score() {
    FigureScore s;
    s.rows = static_cast<std::int64_t>(apes_.size());
    if (apes_.empty()) return s;
    double sum = 0;
    for (const double ape : apes_) sum += ape;
    const double n = static_cast<double>(apes_.size());
    s.mape = sum / n;
    s.median_ape = MedianOf(apes_);
    s.bias = 100 * (MedianOf(ratios_) - 1);
    s.within_interval = 100 * static_cast<double>(within_) / n;
    return s;
  }

 private:
  std::vector<double> ratios_, apes_;
  std::int64_t within_ = 0;
};

// Bounds of the groups of concurrency: 1-4, 5-16 ...
constexpr std::array<std::int64_t, 5> kConcurrencyBounds = {4, 16, 64, 256, 1024};

std::string ConcurrencyGroup(std::int64_t c) {
  if (c < 1) return "0 at a rate";
  std::int64_t low = 1;
  int rank = 1;
  for (const std::int64_t high : kConcurrencyBounds) {
    if (c <= high) return fmt::format("{} {}-{}", rank, low, high);
    low = high + 1;
    ++rank;
  }
  return fmt::format("{} above {}", rank, kConcurrencyBounds.back());
}

std::string GroupOf(const ValidatedRow& row, ScoreDimension dimension) {
  const MeasuredPoint& p = row.measured.point;
  switch (dimension) {
    case ScoreDimension::kMode:
      return row.measured.disaggregated ? "disagg" : "agg";
    case ScoreDimension::kBackend:
      return p.backend;
    case ScoreDimension::kSystem:
      return p.system;
    case ScoreDimension::kModel:
      return p.model;
    case ScoreDimension::kConcurrency:
      return ConcurrencyGroup(row.measured.concurrency);
  }
  return {};
}

bool Counts(const ValidatedRow& row, const ScoreScope& scope) {
  const RepairedPoint& m = row.measured;
  if (m.copy && !scope.copies) return false;
  if (m.hidden_speculation && !scope.speculation) return false;
  return m.disaggregated ? scope.disaggregated : scope.aggregated;
}

}  // namespace

std::vector<ValidatedRow> ValidatePoints(std::vector<MeasuredPoint> points,
                                         const SystemsCatalog& systems,
                                         const CheckpointSearch& checkpoints,
                                         const ValidateOptions& options) {
  std::vector<RepairedPoint> repaired = RepairPoints(std::move(points), MoeTest(checkpoints));
  std::vector<PreparedDeployment> deployments =
      PreparePoints(repaired, systems, checkpoints, options.prepare);
  std::vector<ValidatedRow> rows(repaired.size());
  tbb::parallel_for(std::size_t{0}, deployments.size(), [&](std::size_t g) {
    PreparedDeployment& deployment = deployments[g];
    for (const PreparedPoint& point : deployment.points) {
      ValidatedRow& row = rows[point.index];
      row.notes = point.notes;
      row.kind = point.kind;
      Result<ServingForecast> forecast = ForecastPoint(
          deployment, point,
          options.corrections ? options.corrections(point.backend, point.disaggregated)
                              : DefaultCorrections(point.backend, point.disaggregated));
      if (!forecast) {
        row.error = forecast.error();
        continue;
      }
      row.ttft_ms = forecast->ttft.mean;
      row.tpot_ms = forecast->tpot.mean;
      row.forecast = *std::move(forecast);
    }
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ValidatedRow& row = rows[i];
    row.measured = std::move(repaired[i]);
    if (options.calibration == nullptr || !row.answered()) continue;
    std::string why;
    const CalibrationQuery query = QueryOf(row.measured);
    if (const CalibrationFactor* factor = FindFactor(*options.calibration, query, &why)) {
      row.calibrated_ttft_ms = row.ttft_ms * factor->ttft;
      row.calibrated_tpot_ms = row.tpot_ms * factor->tpot;
    } else {
      row.notes.push_back(why);
    }
  }
  return rows;
}

GroupScore Score(std::span<const ValidatedRow> rows, const ScoreScope& scope, std::string name,
                 const std::function<bool(const ValidatedRow&)>& keep) {
  GroupScore out;
  out.name = std::move(name);
  FigureTally ttft, tpot;
  for (const ValidatedRow& row : rows) {
    if (!Counts(row, scope) || (keep && !keep(row))) continue;
    ++out.rows;
    if (row.measured.unanswerable) continue;
    ++out.answerable;
    if (!row.answered()) continue;
    ++out.answered;
    const ForecastIntervals intervals =
        IntervalsOf(row.kind, row.best_ttft_ms(), row.best_tpot_ms());
    ttft.Add(row.best_ttft_ms(), row.measured.point.ttft_ms, intervals.ttft);
    tpot.Add(row.best_tpot_ms(), row.measured.point.tpot_ms, intervals.tpot);
  }
  out.ttft = ttft.Score();
  out.tpot = tpot.Score();
  return out;
}

std::vector<GroupScore> ScoreBy(std::span<const ValidatedRow> rows, const ScoreScope& scope,
                                ScoreDimension dimension) {
  std::map<std::string, int> names;
  for (const ValidatedRow& row : rows) {
    if (Counts(row, scope)) names.emplace(GroupOf(row, dimension), 0);
  }
  std::vector<GroupScore> out;
  for (const auto& [name, unused] : names) {
    // The rank in front of a group of concurrency only sorts.
    const std::string shown =
        dimension == ScoreDimension::kConcurrency ? name.substr(name.find(' ') + 1) : name;
    out.push_back(Score(rows, scope, shown, [&, &key = name](const ValidatedRow& row) {
      return GroupOf(row, dimension) == key;
    }));
  }
  return out;
}

}  // namespace infercast
