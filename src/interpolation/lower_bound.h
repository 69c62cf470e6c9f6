// Position of a coordinate among ascending keys, without a branch that depends on the data: the
// keys of a grid axis are few, and a query's place among them is hard to predict.
#pragma once

#include <cstddef>
#include <span>

namespace infercast {

// Index of the first of `keys` that is not below c; keys.size() when there is none.
inline std::size_t LowerBound(std::span<const double> keys, double c) {
  const double* first = keys.data();
  std::size_t n = keys.size();
  if (n == 0) return 0;
  while (n > 1) {
    const std::size_t half = n / 2;
    first += first[half - 1] < c ? half : 0;
    n -= half;
  }
  return static_cast<std::size_t>(first - keys.data()) + (*first < c ? 1 : 0);
}

}  // namespace infercast
