// Nested grids of one to four axes, possibly ragged: exact hit, nested blends inside, survivor
// scaling where one bracket is too short, held utilisation of the four nearest leaves outside.
#pragma once

#include <memory>
#include <span>

#include "interpolation/resolved.h"
#include "tables/table.h"

namespace infercast {

constexpr int kMaxGridAxes = 4;

// Search index over the leaves of one slice for holds (built once per slice at binding, shared).
class HoldIndex {
 public:
  static std::shared_ptr<const HoldIndex> Build(const GridView& grid);
  virtual ~HoldIndex() = default;
};

// `grid` has as many axes as `coords`. `sqrt_axis`: axis whose blend runs in square-root space, or
// -1. `hold`: optional index of exactly this grid; without it a hold scans the leaves (same
// answer). `sol` gets all coordinates in axis order.
ResolveResult ResolveGrid(const GridView& grid, std::span<const double> coords, int sqrt_axis,
                          SolFunction sol, const HoldIndex* hold = nullptr);

}  // namespace infercast
