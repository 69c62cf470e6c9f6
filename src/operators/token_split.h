// How many tokens one rank sees of a step's tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ordinals.h"

namespace infercast {

// tokens / scale rounded down (coarser tokens, such as one per block), then shared over `split`
// ranks, the busiest of which counts. 0 acts as 1 for both.
constexpr double TokensOfRank(std::uint32_t tokens, std::uint32_t scale, std::uint32_t split) {
  return static_cast<double>(
      CeilDiv(tokens / std::max(scale, std::uint32_t{1}), static_cast<std::uint64_t>(split)));
}

}  // namespace infercast
