#include "base/rounding.h"

#include <array>
#include <charconv>
#include <cmath>

namespace infercast {

double RoundTable(double value, int digits) {
  double scale = 1;
  for (int i = 0; i < digits; ++i) scale *= 10;
  return std::rint(value * scale) / scale;
}

double RoundDecimal(double value, int digits) {
  if (!std::isfinite(value)) return value;
  // Printing with a fixed precision rounds the exact binary value; reading back is exact again.
  std::array<char, 400> text{};
  const auto printed = std::to_chars(text.data(), text.data() + text.size(), value,
                                     std::chars_format::fixed, digits);
  if (printed.ec != std::errc{}) return value;
  double rounded = value;
  std::from_chars(text.data(), printed.ptr, rounded);
  return rounded;
}

}  // namespace infercast
