// The order that the reference leaves among rows of equal key: its one-key sorts are an introsort
// that is not stable beyond 16 rows. Used where its tables are reproduced; everything else sorts
// stably by a total order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infercast {

// Positions of `keys` in descending order as the reference returns them.
std::vector<std::uint32_t> ReferenceSortDescending(std::span<const double> keys);

}  // namespace infercast
