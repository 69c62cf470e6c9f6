#include "interpolation/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "interpolation/curve.h"

namespace infercast {

namespace {

using Coords = std::array<double, kMaxGridAxes>;

// Coordinates of the leaves below `grid`, one row a leaf, in leaf order.
std::vector<double> LeafCoordinates(const GridView& grid, double (*map)(double)) {
  const std::size_t axes = static_cast<std::size_t>(grid.depth());
  const auto [first, last] = grid.LeafRange();
  std::vector<double> rows((last - first) * axes);
  // Walk level by level: a node's coordinate repeats over its leaves.
  std::uint32_t begin = grid.begin;
  std::uint32_t end = grid.end;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::uint32_t level = grid.level + static_cast<std::uint32_t>(a);
    const TableLevel& nodes = grid.table->levels[level];
    for (std::uint32_t node = begin; node < end; ++node) {
      const auto leaves = GridView{grid.table, level, node, node + 1}.LeafRange();
      const double value = map(nodes.keys[node]);
      for (std::uint32_t leaf = leaves.first; leaf < leaves.second; ++leaf) {
        rows[(leaf - first) * axes + a] = value;
      }
    }
    if (a + 1 < axes) {
      begin = nodes.child_begin[begin];
      end = nodes.child_begin[end];
    }
  }
  return rows;
}

double Log2Floor(double v) { return std::log2(std::max(v, 1e-12)); }

enum class Outcome : std::uint8_t { kValue, kOutOfRange, kMiss };

struct Interior {
  Outcome outcome = Outcome::kMiss;
  Miss miss = Miss::kEmptyBranch;
  double latency = 0;
  double power = 0;
  float octaves = 0;  // > 0 where a branch was too short and its survivor was scaled
  std::uint32_t leaf = 0;

  static Interior OutOfRange() { return {.outcome = Outcome::kOutOfRange}; }
  static Interior Missed(Miss why) { return {.outcome = Outcome::kMiss, .miss = why}; }
};

struct Walk {
  const Table& table;
  std::span<const double> query;
  int sqrt_axis;
  SolFunction sol;

  Interior Resolve(std::uint32_t level, std::uint32_t begin, std::uint32_t end, std::size_t axis) {
    if (begin == end) return Interior::Missed(Miss::kEmptyBranch);
    const std::span<const double> keys = table.levels[level].keys.subspan(begin, end - begin);
    const double c = query[axis];
    const std::size_t at =
        static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), c) - keys.begin());
    if (at < keys.size() && keys[at] == c) return Child(level, begin + at, axis);
    if (at == 0 || at == keys.size()) return Interior::OutOfRange();
    const Interior low = Child(level, begin + at - 1, axis);
    const Interior high = Child(level, begin + at, axis);
    const bool has_low = low.outcome == Outcome::kValue;
    const bool has_high = high.outcome == Outcome::kValue;
    const double lo = keys[at - 1];
    const double hi = keys[at];
    if (has_low && has_high) {
      const double w = (c - lo) / (hi - lo);
      Interior r{.outcome = Outcome::kValue};
      if (static_cast<int>(axis) == sqrt_axis) {
        const double g_low = low.latency > 0 ? std::sqrt(low.latency) : 0;
        const double g_high = high.latency > 0 ? std::sqrt(high.latency) : 0;
        const double g = g_low + (g_high - g_low) * w;
        r.latency = g * g;
      } else {
        r.latency = low.latency + (high.latency - low.latency) * w;
      }
      r.power = low.power + (high.power - low.power) * w;
      r.octaves = std::max(low.octaves, high.octaves);
      r.leaf = w < 0.5 ? low.leaf : high.leaf;
      return r;
    }
    if (has_low || has_high) {
      // The other bracket is too short for the inner coordinates: scale the survivor by the ratio
      // of the speeds of light.
      const double key = has_low ? lo : hi;
      Interior r = has_low ? low : high;
      Coords moved{};
      std::copy(query.begin(), query.end(), moved.begin());
      moved[axis] = key;
      const double sol_query = sol(query);
      const double sol_key = sol(std::span<const double>(moved.data(), query.size()));
      if (std::isfinite(sol_query) && sol_query > 0 && std::isfinite(sol_key) && sol_key > 0) {
        r.latency = r.latency * (sol_query / sol_key);
      }
      r.octaves += static_cast<float>(std::abs(Log2Floor(c) - Log2Floor(key)));
      return r;
    }
    if (low.outcome == Outcome::kOutOfRange || high.outcome == Outcome::kOutOfRange) {
      return Interior::OutOfRange();
    }
    return Interior::Missed(Miss::kNoUsableBranch);
  }

  Interior Child(std::uint32_t level, std::size_t node, std::size_t axis) {
    if (axis + 1 == query.size()) {
      const auto leaf = static_cast<std::uint32_t>(node);
      const Leaf point = table.LeafAt(leaf);
      return {.outcome = Outcome::kValue,
              .latency = point.latency,
              .power = point.BlendPower(),
              .leaf = leaf};
    }
    const auto& offsets = table.levels[level].child_begin;
    return Resolve(level + 1, offsets[node], offsets[node + 1], axis + 1);
  }
};

struct Anchor {
  double distance;
  double sol;
  std::uint32_t leaf;
};

// The first five leaves by (distance, leaf) whose latency and speed of light are usable.
struct Anchors {
  std::array<Anchor, 5> items;
  std::size_t count = 0;
};

bool Usable(double v) { return std::isfinite(v) && v > 0; }

class HoldSearch {
 public:
  HoldSearch(const GridView& grid, std::span<const double> query, SolFunction sol)
      : grid_(grid), query_(query), sol_(sol), first_(grid.LeafRange().first) {
    for (std::size_t i = 0; i < query.size(); ++i) log_query_[i] = Log2Floor(query[i]);
  }

  Anchors FromIndex(const HoldIndex& index) {
    const KdTree& tree = index.tree();
    std::array<KdTree::Hit, 64> hits;
    // Unusable leaves are rare: ask for exactly five, then for more, then scan.
    for (const std::size_t ask : {std::size_t{5}, hits.size()}) {
      const std::size_t n = tree.Nearest(Log(), std::span(hits).first(ask));
      const Anchors found = Accept(std::span(hits).first(n));
      if (found.count == 5 || n < ask) return found;
    }
    return Scan();
  }

  Anchors Scan() {
    const std::size_t axes = query_.size();
    const std::vector<double> rows = LeafCoordinates(grid_, Log2Floor);
    std::vector<KdTree::Hit> hits(rows.size() / axes);
    for (std::size_t i = 0; i < hits.size(); ++i) {
      hits[i] = {KdTree::Distance(std::span(rows).subspan(i * axes, axes), Log()),
                 static_cast<std::uint32_t>(i)};
    }
    std::sort(hits.begin(), hits.end());
    return Accept(hits);
  }

 private:
  std::span<const double> Log() const {
    return std::span<const double>(log_query_.data(), query_.size());
  }

  Anchors Accept(std::span<const KdTree::Hit> hits) {
    Anchors found;
    for (const KdTree::Hit& hit : hits) {
      const std::uint32_t leaf = first_ + hit.index;
      if (!Usable(grid_.table->latency[leaf])) continue;
      const double sol = sol_(KeysOf(leaf));
      if (!Usable(sol)) continue;
      found.items[found.count++] = {hit.distance, sol, leaf};
      if (found.count == found.items.size()) break;
    }
    return found;
  }

  // Key path of a leaf, found level by level from the offsets.
  std::span<const double> KeysOf(std::uint32_t leaf) {
    std::uint32_t node = leaf;
    for (std::size_t a = query_.size(); a-- > 0;) {
      const std::uint32_t level = grid_.level + static_cast<std::uint32_t>(a);
      keys_[a] = grid_.table->levels[level].keys[node];
      if (a > 0) {
        const auto& offsets = grid_.table->levels[level - 1].child_begin;
        node = static_cast<std::uint32_t>(std::upper_bound(offsets.begin(), offsets.end(), node) -
                                          offsets.begin()) -
               1;
      }
    }
    return std::span<const double>(keys_.data(), query_.size());
  }

  const GridView& grid_;
  std::span<const double> query_;
  SolFunction sol_;
  std::uint32_t first_;
  Coords log_query_{};
  Coords keys_{};
};

ResolveResult Hold(const GridView& grid, std::span<const double> query, SolFunction sol,
                   const HoldIndex* index) {
  HoldSearch search(grid, query, sol);
  const Anchors anchors = index != nullptr ? search.FromIndex(*index) : search.Scan();
  if (anchors.count == 0) return std::unexpected(Miss::kNoBoundaryAnchor);
  const std::size_t n = std::min<std::size_t>(anchors.count, 4);
  const double radius =
      anchors.count == 5 ? anchors.items[4].distance : std::numeric_limits<double>::infinity();
  std::array<double, 4> weights{};
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double d = anchors.items[i].distance;
    if (std::isinf(radius)) {
      weights[i] = 1 / (d * d + 1e-12);
    } else {
      const double t = std::max(radius - d, 0.0) / (radius * d + 1e-12);
      weights[i] = t * t;
    }
    total += weights[i];
  }
  if (!(total > 0)) {  // all anchors sit on the support radius
    weights.fill(1);
    total = static_cast<double>(n);
  }
  const double sol_query = sol(query);
  if (!Usable(sol_query)) return std::unexpected(Miss::kNonPositiveSol);
  double util = 0;
  double power = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Leaf leaf = grid.table->LeafAt(anchors.items[i].leaf);
    util += weights[i] * (anchors.items[i].sol / leaf.latency);
    power += weights[i] * leaf.BlendPower();
  }
  Resolved r;
  r.latency = sol_query / (util / total);
  r.power = power / total;
  r.energy = r.power * r.latency;
  r.kind = ResolveKind::kExtrapolated;
  r.octaves = static_cast<float>(anchors.items[0].distance);
  r.leaf = anchors.items[0].leaf;
  return r;
}

}  // namespace

const KdTree& HoldIndex::tree() const {
  std::call_once(once_, [&] {
    tree_ = std::make_unique<const KdTree>(grid_.depth(), LeafCoordinates(grid_, Log2Floor));
  });
  return *tree_;
}

ResolveResult ResolveGrid(const GridView& grid, std::span<const double> coords, int sqrt_axis,
                          SolFunction sol, const HoldIndex* hold) {
  if (grid.empty()) return std::unexpected(Miss::kEmptyTable);
  if (coords.size() == 1) return ResolveCurve(grid, coords[0], sol);

  // Exact hit: the stored leaf verbatim.
  std::uint32_t begin = grid.begin;
  std::uint32_t end = grid.end;
  bool exact = true;
  for (std::size_t a = 0; a < coords.size(); ++a) {
    const std::uint32_t level = grid.level + static_cast<std::uint32_t>(a);
    const auto node = GridView{grid.table, level, begin, end}.Find(coords[a]);
    if (!node) {
      exact = false;
      break;
    }
    if (a + 1 == coords.size()) {
      begin = *node;
    } else {
      const auto& offsets = grid.table->levels[level].child_begin;
      begin = offsets[*node];
      end = offsets[*node + 1];
    }
  }
  if (exact) {
    const Leaf leaf = grid.table->LeafAt(begin);
    return Resolved{leaf.latency, leaf.power, leaf.energy, ResolveKind::kPoint, 0, begin};
  }

  Walk walk{*grid.table, coords, sqrt_axis, sol};
  const Interior inside = walk.Resolve(grid.level, grid.begin, grid.end, 0);
  switch (inside.outcome) {
    case Outcome::kValue: {
      Resolved r;
      r.latency = inside.latency;
      r.power = inside.power;
      r.energy = r.power * r.latency;
      r.kind = inside.octaves > 0 ? ResolveKind::kExtrapolated : ResolveKind::kInterpolated;
      r.octaves = inside.octaves;
      r.leaf = inside.leaf;
      return r;
    }
    case Outcome::kOutOfRange:
      return Hold(grid, coords, sol, hold);
    case Outcome::kMiss:
      return std::unexpected(inside.miss);
  }
  return std::unexpected(Miss::kEmptyTable);
}

}  // namespace infercast
