#include "serving/uncertainty.h"

#include <algorithm>
#include <cmath>

namespace infercast {

namespace {

// Measured over predicted values at the 8 % and 92 % points of the out-of-fold errors. The bounds
// of groups never seen cover less than those of seen ones; these points make them cover four of
// five.
struct Ratios {
  double ttft_low, ttft_high, tpot_low, tpot_high;
};
struct Row {
  Ratios measured, estimated;
};

constexpr Row kTrtllm = {{0.674, 1.864, 0.815, 1.288}, {0.674, 2.009, 0.815, 1.348}};
constexpr Row kSglang = {{0.672, 4.459, 0.758, 1.315}, {0.672, 4.459, 0.758, 1.348}};
constexpr Row kVllm = {{0.667, 1.584, 0.812, 1.312}, {0.667, 1.584, 0.812, 1.348}};
// Pools: few groups, so the 4 % and 96 % points.
constexpr Row kTrtllmPools = {{0.677, 30.56, 0.761, 1.265}, {0.677, 30.56, 0.761, 1.265}};
constexpr Row kSglangPools = {{0.058, 7.618, 0.520, 1.518}, {0.058, 7.618, 0.520, 1.518}};

// Beyond this many octaves outside the measured sizes bounds widen, in the logarithm.
constexpr double kFar = 0.5;
constexpr double kFarFactor = 1.3;

const Row& RowOf(const ForecastKind& kind) {
  if (kind.disaggregated) return kind.backend == Backend::kSglang ? kSglangPools : kTrtllmPools;
  switch (kind.backend) {
    case Backend::kTrtllm:
      return kTrtllm;
    case Backend::kSglang:
      return kSglang;
    case Backend::kVllm:
      return kVllm;
  }
  return kTrtllm;
}

}  // namespace

ForecastKind KindOf(const Worker& worker, bool disaggregated, std::int64_t decodes,
                    std::int64_t isl, std::int64_t osl) {
  ForecastKind kind;
  kind.backend = worker.backend();
  kind.disaggregated = disaggregated;
  const Result<Breakdown> step = worker.engine().ExplainDecodeStep(
      static_cast<std::uint32_t>(std::max<std::int64_t>(decodes, 1)),
      static_cast<std::uint32_t>(isl), static_cast<std::uint32_t>(osl));
  if (!step) return kind;
  double total = 0, estimated = 0;
  for (const OpEntry& e : step->entries) {
    total += e.latency_ms;
    if (e.origin.kind >= OriginKind::kEstimated) estimated += e.latency_ms;
    kind.octaves += e.latency_ms * static_cast<double>(e.origin.octaves);
  }
  if (total > 0) kind.octaves /= total;
  kind.estimated = estimated > 0.1 * total;
  return kind;
}

double WideningOf(const ForecastKind& kind) { return kind.octaves > kFar ? kFarFactor : 1; }

ForecastIntervals IntervalsOf(const ForecastKind& kind, double ttft, double tpot) {
  const Row& row = RowOf(kind);
  Ratios r = kind.estimated ? row.estimated : row.measured;
  if (const double wide = WideningOf(kind); wide != 1) {
    for (double* ratio : {&r.ttft_low, &r.ttft_high, &r.tpot_low, &r.tpot_high}) {
      *ratio = std::pow(*ratio, wide);
    }
  }
  return {{ttft * r.ttft_low, ttft * r.ttft_high}, {tpot * r.tpot_low, tpot * r.tpot_high}};
}

}  // namespace infercast
