// Small regressions of iteration time on workload: non-negative slopes, and for one axis a line
// that may bend once (below some size the GPU is not filled and time hardly grows).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "online/sample_store.h"

namespace infercast {

// y = intercept + slopes * x + bend * max(x[0] - knot, 0).
struct Fit {
  double intercept = 0;
  std::array<double, 2> slopes{};
  double bend = 0;
  double knot = 0;

  double At(std::span<const double> x) const {
    double y = intercept;
    for (std::size_t i = 0; i < x.size(); ++i) y += slopes[i] * x[i];
    if (bend != 0.0 && x[0] > knot) y += bend * (x[0] - knot);
    return y;
  }
};

// Least squares over every subset of the slopes, negative slopes refused; the best one. None when
// there are fewer than `min_samples`, or the data shows no dependence on any axis.
std::optional<Fit> FitLine(std::span<const Sample> samples, int axes, std::uint64_t min_samples);

// Relative least squares over a set of knots; none when fewer than three distinct sizes were seen
// or no bent line rises everywhere.
std::optional<Fit> FitBentLine(std::span<const Sample> samples);

// The fit of one kind of work: bent where there is one axis and enough data, else straight.
std::optional<Fit> FitSamples(std::span<const Sample> samples, int axes, std::uint64_t min_samples);

}  // namespace infercast
