// What a load generator sends and how its report sums up: request lengths, arrivals, percentiles.
//
// Method: the protocol of the public serving benchmarks. A closed loop keeps `concurrency` requests
// in flight until ten waves are served; lengths are uniform between 0.8 of the nominal length and
// the nominal length, input and output drawn apart. The generator is our own, so a seed gives the
// same requests on every platform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace infercast {

struct LoadSpec {
  std::int64_t isl = 1024;
  std::int64_t osl = 1024;
  std::int64_t prefix = 0;       // input tokens whose KV is cached
  std::int64_t concurrency = 0;  // > 0: closed loop
  double rate = 0;               // > 0: open arrivals, requests per second, exponential gaps
  std::int64_t requests = 0;     // 0: ten waves of the concurrency; 512 at a rate
  double shortest = 0.8;         // lengths from floor(shortest * nominal) on; 1: all nominal
  double progress = 1;           // tokens decoded per request and step (speculation)
  std::uint64_t seed = 1;
  // > 0, ms: the run ends early, with kNoFeasibleConfig, once the mean TTFT is sure to be above it.
  double give_up_ttft = 0;
};

inline constexpr std::int64_t kLoadWaves = 10;
// kInvalidArgument unless exactly one of concurrency and rate is set and every size is in range.
Status CheckLoad(const LoadSpec& load);
std::int64_t RequestsOf(const LoadSpec& load);

struct RequestShape {
  std::int64_t isl = 1;
  std::int64_t osl = 1;
};
// Lengths in order of sending.
std::vector<RequestShape> DrawShapes(const LoadSpec& load);
// Times of sending, ms, of open arrivals.
std::vector<double> DrawArrivals(const LoadSpec& load);

// Of a set of values; all zero for none.
struct Distribution {
  double mean = 0, median = 0, p90 = 0, p99 = 0;
};
// Reorders `values`. Percentiles lie on straight lines between the sorted values.
Distribution Summarise(std::vector<double>& values);
// As if the values [first, last) stood there 1 + `more` times. Percentiles are values of the set.
Distribution Summarise(const std::vector<double>& values, std::size_t first, std::size_t last,
                       double more);
double SortedQuantile(const std::vector<double>& sorted, double q);

}  // namespace infercast
