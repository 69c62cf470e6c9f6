// A ladder of calibrations: the first that has samples gives the estimate.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "operators/measured_slice.h"
#include "operators/perf_result.h"

namespace infercast {

// Built while binding, then immutable; copies share the rungs. Samples are gathered by the first
// estimate that needs them.
class EstimateLadder {
 public:
  struct Rung {
    Calibration samples;
    Tier tier = Tier::kEmpirical;
    double scale = 1.0;      // the query's utilisation over that of the samples
    std::string donor = {};  // what the samples were borrowed from; empty: the query's own slice
  };

  EstimateLadder() = default;  // nothing to estimate from
  explicit EstimateLadder(std::vector<Rung> rungs)
      : rungs_(std::make_shared<const std::vector<Rung>>(std::move(rungs))) {}

  // Estimate at x whose speed of light is `sol` ms. kEmpiricalNotImplemented when no rung has
  // samples. The answer's donor lives as long as the ladder.
  Result<PerfResult> At(std::span<const double> x, double sol, const char* what) const;

 private:
  std::shared_ptr<const std::vector<Rung>> rungs_;
};

}  // namespace infercast
