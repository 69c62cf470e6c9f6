// Nested grids of one to four axes, possibly ragged: exact hit, nested blends inside, survivor
// scaling where one bracket is too short, held utilisation of the four nearest leaves outside.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

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

  // What a hold searches; leaf i of the slice is point i of the tree.
  struct Leaves {
    KdTree tree;               // in log2 coordinates
    std::vector<double> keys;  // one row of coordinates a leaf
  };
  const Leaves& leaves() const;

 private:
  GridView grid_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const Leaves> leaves_;
};

// `grid` has as many axes as `coords`. `sqrt_axis`: axis whose blend runs in square-root space, or
// -1. `hold`: optional index of exactly this grid; without it a hold scans the leaves (same
// answer). `sol` gets all coordinates in axis order.
ResolveResult ResolveGrid(const GridView& grid, std::span<const double> coords, int sqrt_axis,
                          SolFunction sol, const HoldIndex* hold = nullptr);

// How far the five leaves nearest to a question were, and where it stood on the last axis (log2).
// It bounds the search of the next question on the same line.
struct HoldReach {
  double distance = std::numeric_limits<double>::infinity();
  double at = 0;
};

// A grid of three axes asked at several places that differ in the last coordinate only: the first
// two are looked up once. The answers are those of ResolveGrid without a square-root axis. Any
// order of questions is right, an ascending one is fast. `sol` and `hold` must outlive the line.
class GridLine {
 public:
  GridLine(const GridView& grid, double first, double second, SolFunction sol,
           const HoldIndex* hold = nullptr);
  ResolveResult At(double third);

 private:
  friend struct LineWalk;
  // Where a coordinate lies among the keys of one level.
  struct Fork {
    enum class Kind : std::uint8_t { kEmpty, kExact, kBetween, kOutside } kind = Kind::kEmpty;
    std::uint32_t low = 0;             // node at or below the coordinate
    double low_key = 0, high_key = 0;  // keys around it where it lies between
  };
  struct Curve {
    std::uint32_t begin = 0, end = 0;
    std::uint32_t last = 0;  // where the question before was found
  };
  static Fork Locate(const GridView& level, double c);

  const GridView grid_;
  SolFunction sol_;
  const HoldIndex* hold_;
  std::array<double, 3> query_;
  Fork outer_;
  std::array<Fork, 2> inner_;                   // below each branch of the outer fork
  std::array<std::array<Curve, 2>, 2> curves_;  // below each branch of the inner forks
  HoldReach reach_;
};

}  // namespace infercast
