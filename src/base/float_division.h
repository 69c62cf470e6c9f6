// Floor division of doubles from the exact remainder: floor(a / b) without the rounding of a / b.
#pragma once

#include <cmath>

namespace infercast {

// b > 0. Not floor(a / b): 1 divided so by 0.1 is 9, as 0.1 is a little more than a tenth.
inline double ExactFloorDivide(double a, double b) {
  double m = std::fmod(a, b);
  if (m < 0) m += b;
  const double q = (a - m) / b;
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

}  // namespace infercast
