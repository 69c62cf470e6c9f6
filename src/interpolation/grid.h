// Nested grids of one to four axes, possibly ragged: exact hit, nested blends inside, survivor
// scaling where one bracket is too short, held utilisation of the four nearest leaves outside.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "interpolation/kd_tree.h"
#include "interpolation/resolved.h"
#include "tables/table.h"

namespace infercast {

constexpr int kMaxGridAxes = 4;

// Search index over the leaves of one slice for holds. Cheap to make; the tree is built at the
// first hold. Thread-safe.
class HoldIndex {
 public:
  explicit HoldIndex(const GridView& grid) : grid_(grid) {}
  static std::shared_ptr<const HoldIndex> Build(const GridView& grid) {
    return std::make_shared<HoldIndex>(grid);
  }
  // Leaves in log2 coordinates; point i is leaf first_leaf() + i.
  const KdTree& tree() const;
  std::uint32_t first_leaf() const { return grid_.LeafRange().first; }

 private:
  GridView grid_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const KdTree> tree_;
};

// `grid` has as many axes as `coords`. `sqrt_axis`: axis whose blend runs in square-root space, or
// -1. `hold`: optional index of exactly this grid; without it a hold scans the leaves (same
// answer). `sol` gets all coordinates in axis order.
ResolveResult ResolveGrid(const GridView& grid, std::span<const double> coords, int sqrt_axis,
                          SolFunction sol, const HoldIndex* hold = nullptr);

}  // namespace infercast
