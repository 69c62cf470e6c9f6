// Small integer helpers shared by token arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>

namespace infercast {

// ceil(a / b) on unsigned integers; b = 0 acts as 1.
constexpr std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) {
  b = std::max<std::uint64_t>(b, 1);
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace infercast
