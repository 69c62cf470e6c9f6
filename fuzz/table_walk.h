// Uses a decoded table as the estimators do: every array, and look-ups inside and around its grids.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "interpolation/grid.h"
#include "tables/table.h"

namespace infercast::fuzzing {

inline void WalkTable(const Table& table) {
  double sum = 0;
  for (std::uint32_t i = 0; i < table.num_leaves(); ++i) {
    sum += table.LeafAt(i).BlendPower() + table.order[i] + table.source[i];
  }
  volatile double sink = sum;
  (void)sink;
  GridView view = table.Root();
  if (view.empty()) return;
  while (view.depth() > 3) view = view.Child(view.end - 1);
  const auto sol = [](std::span<const double> c) {
    double product = 1;
    for (const double x : c) product *= std::abs(x) + 1;
    return product;
  };
  const auto hold = HoldIndex::Build(view);
  std::vector<double> at(static_cast<std::size_t>(view.depth()));
  const double first = view.keys().front();
  const double last = view.keys().back();
  for (const double c : {first, (first + last) / 2, last * 2 + 1, first - 1, 1.0}) {
    std::fill(at.begin(), at.end(), c);
    (void)ResolveGrid(view, at, -1, sol, hold.get());
    (void)ResolveGrid(view, at, 0, sol, nullptr);
  }
}

}  // namespace infercast::fuzzing
