// The Pareto front of two figures: rows that no other row beats on both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infercast {

struct FrontPoint {
  double x = 0;
  double y = 0;
};

// Positions of the non-dominated points, ascending by x; of identical points the first one in that
// order stays. Points with a non-finite figure are left out.
std::vector<std::uint32_t> ParetoFront(std::span<const FrontPoint> points, bool maximise_x,
                                       bool maximise_y);

}  // namespace infercast
