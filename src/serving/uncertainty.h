// How far forecasts have been from measurements: the error distribution of forecasts of the same
// kind, seen on measured groups that took no part in fitting.
//
// Method: split conformal intervals. Measured groups are split in four; errors of each part are
// taken with the constants fitted on the other three; their 8 % and 92 % points bound the ratio of
// measured to predicted values. A kind is a backend, whether operators were measured or estimated
// and whether the point lies beyond what was measured.
#pragma once

#include <array>
#include <cstdint>

#include "base/modes.h"
#include "serving/worker.h"

namespace infercast {

struct ForecastKind {
  Backend backend = Backend::kTrtllm;
  bool disaggregated = false;
  bool estimated = false;  // some operators of the steps were not measured at all
  double octaves = 0;      // how far beyond measured sizes, log2
};

// The kind of a forecast for `decodes` running requests per rank on this worker.
ForecastKind KindOf(const Worker& worker, bool disaggregated, std::int64_t decodes,
                    std::int64_t isl, std::int64_t osl);

// By what the logarithms of bounds are multiplied: more than 1 far beyond the measured sizes.
double WideningOf(const ForecastKind& kind);

struct Interval {
  double low = 0, high = 0;
};
struct ForecastIntervals {
  Interval ttft, tpot;  // to hold four of five measurements
};
// Bounds around predicted values, in their unit.
ForecastIntervals IntervalsOf(const ForecastKind& kind, double ttft, double tpot);

}  // namespace infercast
