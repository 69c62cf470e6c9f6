// The load that `estimate` puts on a deployment in virtual time, and how the outcome is told.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "search/estimate_point.h"
#include "serving/closed_loop.h"
#include "serving/uncertainty.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// What came of it.
struct LoadAnswer {
  LoadSpec load;
  BatchPolicy policy;
  ServingCorrections corrections;
  ServingForecast forecast;
  ForecastIntervals intervals;  // of the figures below
  // After calibration, where a profile applies.
  std::optional<double> calibrated_ttft_ms, calibrated_tpot_ms;
  std::vector<std::string> notes;

  std::string Text() const;
  nlohmann::ordered_json Json() const;
};

struct BenchmarkLoadFlags {
  std::optional<std::int64_t> concurrency;
  std::optional<double> rate;
  std::optional<std::int64_t> requests;
  std::optional<double> shortest;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> token_budget, poll_interval, hold_steps, max_requests;
  std::vector<std::string> corrections;
  bool bare = false;
  bool recipe = false;
  std::optional<std::string> calibration;

  void Declare(CLI::App& command);
  bool given() const;

  // The load of an aggregated or disaggregated estimate; none in other modes. Without --concurrency
  // and --rate: as many requests in flight as the estimate has, if `by_default`. kUsage when load
  // options are given in a mode that has no load.
  Result<std::optional<LoadAnswer>> Forecast(const EstimateRequest& request,
                                             const PointEstimate& point, bool by_default) const;
};

}  // namespace infercast
