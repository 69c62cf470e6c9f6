#include "validation/fold_evaluation.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "serving/benchmark_load.h"
#include "validation/csv.h"

namespace infercast {

namespace {

// Fewer errors of one kind say nothing of its tails: all of the backend count then.
constexpr std::size_t kEnough = 30;

std::string KeyOf(std::string_view mode, std::string_view backend, std::string_view system,
                  std::string_view model, std::string_view precision) {
  return fmt::format("{}|{}|{}|{}|{}", mode, backend, system, model, precision);
}

struct Bounds {
  double low = 0, high = 0;  // logarithms of measured over predicted
};

// Of sorted values, from `tail` to 1 - `tail`.
std::optional<Bounds> BoundsOf(std::vector<double>& logs, double tail) {
  if (logs.empty()) return std::nullopt;
  std::ranges::sort(logs);
  return Bounds{SortedQuantile(logs, tail), SortedQuantile(logs, 1 - tail)};
}

// `figures(sample)`: measured and predicted value.
template <typename Figures>
void Count(std::span<const FoldSample> samples, const Figures& figures, std::int64_t& rows,
           std::int64_t& within) {
  const auto log_ratio = [&](const FoldSample& s) -> std::optional<double> {
    const auto [measured, predicted] = figures(s);
    if (!(measured > 0 && predicted > 0)) return std::nullopt;
    return std::log(measured / predicted);
  };
  for (int fold = 0; fold < Folds::kCount; ++fold) {
    const auto bounds_for = [&](bool estimated) {
      std::vector<double> same, all;
      double tail = 0.08;
      for (const FoldSample& s : samples) {
        if (s.kind.disaggregated) tail = 0.04;
        const std::optional<double> ratio = log_ratio(s);
        if (s.fold == fold || !ratio) continue;
        const double normal = *ratio / WideningOf(s.kind);
        all.push_back(normal);
        if (s.kind.estimated == estimated) same.push_back(normal);
      }
      return BoundsOf(same.size() >= kEnough ? same : all, tail);
    };
    const std::optional<Bounds> bounds[] = {bounds_for(false), bounds_for(true)};
    for (const FoldSample& s : samples) {
      const std::optional<double> ratio = log_ratio(s);
      const std::optional<Bounds>& b = bounds[s.kind.estimated ? 1 : 0];
      if (s.fold != fold || !ratio || !b) continue;
      ++rows;
      const double wide = WideningOf(s.kind);
      if (*ratio >= b->low * wide && *ratio <= b->high * wide) ++within;
    }
  }
}

double Percent(std::int64_t part, std::int64_t all) {
  return all == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

Folds Folds::Parse(std::string_view csv) {
  Folds folds;
  for (const CsvLine& line : ParseCsv(csv)) {
    if (line.number == 1 || line.cells.size() < 6) continue;
    const std::string& cell = line.cells[5];
    int fold = -1;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), fold);
    if (error != std::errc() || end != cell.data() + cell.size() || fold < 0 || fold >= kCount) {
      continue;
    }
    folds.folds_[KeyOf(line.cells[0], line.cells[1], line.cells[2], line.cells[3], line.cells[4])] =
        fold;
  }
  return folds;
}

int Folds::Of(const RepairedPoint& r, std::size_t index) const {
  const auto it = folds_.find(KeyOf(r.disaggregated ? "disagg" : "agg", r.point.backend,
                                    r.point.system, r.point.model, r.point.precision));
  return it == folds_.end() ? static_cast<int>(index % kCount) : it->second;
}

std::vector<FoldSample> ForecastOutOfFold(std::span<const RepairedPoint> points,
                                          std::vector<PreparedDeployment>& deployments,
                                          const Folds& folds, const FoldConstants& constants) {
  std::vector<std::optional<FoldSample>> by_index(points.size());
  tbb::parallel_for(std::size_t{0}, deployments.size(), [&](std::size_t d) {
    for (const PreparedPoint& p : deployments[d].points) {
      const RepairedPoint& r = points[p.index];
      if (r.copy || r.hidden_speculation) continue;
      FoldSample s;
      s.fold = folds.Of(r, p.index);
      s.kind = p.kind;
      s.measured_ttft = r.point.ttft_ms.value_or(0);
      s.measured_tpot = r.point.tpot_ms.value_or(0);
      if (const auto forecast =
              ForecastPoint(deployments[d], p, constants(p.backend, p.disaggregated, s.fold))) {
        s.ttft = forecast->ttft.mean;
        s.tpot = forecast->tpot.mean;
      }
      by_index[p.index] = s;
    }
  });
  std::vector<FoldSample> samples;
  for (const std::optional<FoldSample>& s : by_index) {
    if (s) samples.push_back(*s);
  }
  return samples;
}

double IntervalCoverage::ttft_percent() const { return Percent(ttft_within, ttft_rows); }
double IntervalCoverage::tpot_percent() const { return Percent(tpot_within, tpot_rows); }

void IntervalCoverage::Merge(const IntervalCoverage& other) {
  ttft_rows += other.ttft_rows;
  tpot_rows += other.tpot_rows;
  ttft_within += other.ttft_within;
  tpot_within += other.tpot_within;
}

IntervalCoverage CoverageOutOfFold(std::span<const FoldSample> samples) {
  IntervalCoverage c;
  Count(
      samples, [](const FoldSample& s) { return std::pair(s.measured_ttft, s.ttft); }, c.ttft_rows,
      c.ttft_within);
  Count(
      samples, [](const FoldSample& s) { return std::pair(s.measured_tpot, s.tpot); }, c.tpot_rows,
      c.tpot_within);
  return c;
}

IntervalCoverage CoverageAsShown(std::span<const FoldSample> samples) {
  IntervalCoverage c;
  for (const FoldSample& s : samples) {
    const ForecastIntervals shown = IntervalsOf(s.kind, s.ttft, s.tpot);
    const auto count = [](double measured, double predicted, const Interval& i, std::int64_t& rows,
                          std::int64_t& within) {
      if (!(measured > 0 && predicted > 0)) return;
      ++rows;
      if (measured >= i.low && measured <= i.high) ++within;
    };
    count(s.measured_ttft, s.ttft, shown.ttft, c.ttft_rows, c.ttft_within);
    count(s.measured_tpot, s.tpot, shown.tpot, c.tpot_rows, c.tpot_within);
  }
  return c;
}

}  // namespace infercast
