// Speed of light of a matrix product.
#pragma once

#include <algorithm>
#include <span>

#include "base/modes.h"

namespace infercast {

struct GemmRoofline {
  double flops = 0;      // operations/s of the number format
  double bytes = 0;      // per element; charged for all three operands
  double bandwidth = 0;  // bytes/s

  static GemmRoofline Of(GemmQuant quant, double flops, double bandwidth) {
    return {flops, Profile(quant).memory, bandwidth};
  }

  double Math(double m, double n, double k) const { return 2.0 * m * n * k / flops * 1000.0; }
  double Memory(double m, double n, double k) const {
    return bytes * (m * n + m * k + n * k) / bandwidth * 1000.0;
  }
  // Milliseconds.
  double Time(double m, double n, double k) const {
    return std::max(Math(m, n, k), Memory(m, n, k));
  }
};

}  // namespace infercast
