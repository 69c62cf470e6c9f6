// Scores where nothing was fitted: measured groups are dealt to folds beforehand, constants are
// fitted on all folds but one, and that one is forecast with them.
//
// Method: a group is a mode, backend, system, model and precision; it is never split, since sweeps
// over concurrency and copies of a measurement would leak. Intervals are judged the same way: the
// bounds for a fold are quantiles of the errors of the other folds, each of which was forecast
// without itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serving/uncertainty.h"
#include "validation/prepared_point.h"
#include "validation/repairs.h"

namespace infercast {

class Folds {
 public:
  static constexpr int kCount = 4;
  // A CSV with a header: mode, backend, system, model, precision, fold. Lines that are not complete
  // are left out.
  static Folds Parse(std::string_view csv);
  // Fold of a point's group; of unknown groups by `index`, so that every point has one.
  int Of(const RepairedPoint& point, std::size_t index) const;
  bool empty() const { return folds_.empty(); }

 private:
  std::map<std::string, int> folds_;
};

// One point, forecast with constants that its fold took no part in.
struct FoldSample {
  int fold = 0;
  ForecastKind kind;
  // ms; 0: not measured, or no forecast.
  double measured_ttft = 0, ttft = 0;
  double measured_tpot = 0, tpot = 0;
};

// Constants fitted on all folds but one.
using FoldConstants =
    std::function<ServingCorrections(Backend backend, bool disaggregated, int without)>;
// Every point that is no copy and does not speculate in secret, in the file's order. Points without
// a forecast have zeros for it.
std::vector<FoldSample> ForecastOutOfFold(std::span<const RepairedPoint> points,
                                          std::vector<PreparedDeployment>& deployments,
                                          const Folds& folds, const FoldConstants& constants);

struct IntervalCoverage {
  std::int64_t ttft_rows = 0, tpot_rows = 0;
  std::int64_t ttft_within = 0, tpot_within = 0;

  double ttft_percent() const;
  double tpot_percent() const;
  void Merge(const IntervalCoverage& other);
};

// Samples of one backend and mode against bounds from the other folds: the 8 % and 92 % points of
// measured over predicted values (pools: 4 % and 96 %), of points of the same kind (measured or
// estimated operators) where there are enough of them, wider beyond what was measured.
IntervalCoverage CoverageOutOfFold(std::span<const FoldSample> samples);
// Against the bounds that forecasts are shown with.
IntervalCoverage CoverageAsShown(std::span<const FoldSample> samples);

}  // namespace infercast
