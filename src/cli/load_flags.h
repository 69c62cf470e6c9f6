// The load that `estimate` puts on a deployment in virtual time, and how the outcome is told.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "search/estimate_score.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// A run, and what a calibration profile makes of it.
struct LoadAnswer {
  ServingRun run;
  ForecastIntervals intervals;  // of the calibrated figures where a profile applies
  std::optional<double> calibrated_ttft_ms, calibrated_tpot_ms;
  std::vector<std::string> notes;

  std::string Text() const;
  nlohmann::ordered_json Json() const;
};

struct BenchmarkLoadFlags {
  BenchmarkLoad load;
  std::optional<std::string> calibration;

  void Declare(CLI::App& command);
  bool given() const { return load.given() || calibration; }
  // kIo, kInvalidArgument of the profile.
  Result<LoadAnswer> Answer(const EstimateRequest& request, const PointEstimate& point,
                            const ServingRun& run) const;
};

}  // namespace infercast
