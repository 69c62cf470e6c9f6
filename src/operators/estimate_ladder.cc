#include "operators/estimate_ladder.h"

#include <fmt/format.h>

namespace infercast {

Result<PerfResult> EstimateLadder::At(std::span<const double> x, double sol,
                                      const char* what) const {
  if (rungs_) {
    for (const Rung& rung : *rungs_) {
      if (!rung.samples.usable()) continue;
      return rung.samples.Estimate(x, sol, what, rung.scale, rung.tier,
                                   rung.donor.empty() ? nullptr : &rung.donor);
    }
  }
  return Fail(ErrorKind::kEmpiricalNotImplemented,
              fmt::format("{}: no measured utilisation to estimate from", what));
}

}  // namespace infercast
