#include "interpolation/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "interpolation/curve.h"
#include "interpolation/lower_bound.h"

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
  bool exact = false;  // the leaf itself: every coordinate was a key

  static Interior OutOfRange() { return {.outcome = Outcome::kOutOfRange}; }
  static Interior Missed(Miss why) { return {.outcome = Outcome::kMiss, .miss = why}; }
};

// Blend of two values in plain or square-root space.
double Blend(double low, double high, double w, bool in_sqrt_space) {
  if (!in_sqrt_space) return low + (high - low) * w;
  const double g_low = low > 0 ? std::sqrt(low) : 0;
  const double g_high = high > 0 ? std::sqrt(high) : 0;
  const double g = g_low + (g_high - g_low) * w;
  return g * g;
}

// What the two branches around a coordinate of one axis say together.
struct Combination {
  std::span<const double> query;
  int sqrt_axis;
  SolFunction sol;

  Interior Of(const Interior& low, const Interior& high, std::size_t axis, double lo,
              double hi) const {
    const bool has_low = low.outcome == Outcome::kValue;
    const bool has_high = high.outcome == Outcome::kValue;
    if (has_low && has_high) {
      const double w = (query[axis] - lo) / (hi - lo);
      Interior r{.outcome = Outcome::kValue};
      r.latency = Blend(low.latency, high.latency, w, static_cast<int>(axis) == sqrt_axis);
      r.power = low.power + (high.power - low.power) * w;
      r.octaves = std::max(low.octaves, high.octaves);
      r.leaf = w < 0.5 ? low.leaf : high.leaf;
      return r;
    }
    if (has_low) return Survivor(low, axis, lo);
    if (has_high) return Survivor(high, axis, hi);
    if (low.outcome == Outcome::kOutOfRange || high.outcome == Outcome::kOutOfRange) {
      return Interior::OutOfRange();
    }
    return Interior::Missed(Miss::kNoUsableBranch);
  }

  // The other bracket is too short for the inner coordinates: `r`, found at `key`, is scaled by
  // the ratio of the speeds of light.
  Interior Survivor(Interior r, std::size_t axis, double key) const {
    Coords moved{};
    std::copy(query.begin(), query.end(), moved.begin());
    moved[axis] = key;
    const double sol_query = sol(query);
    const double sol_key = sol(std::span<const double>(moved.data(), query.size()));
    if (std::isfinite(sol_query) && sol_query > 0 && std::isfinite(sol_key) && sol_key > 0) {
      r.latency = r.latency * (sol_query / sol_key);
    }
    r.octaves += static_cast<float>(
        std::abs(std::log2(std::max(query[axis], 1e-12) / std::max(key, 1e-12))));
    r.exact = false;
    return r;
  }
};

Interior LeafValue(const Table& table, std::uint32_t leaf) {
  const Leaf point = table.LeafAt(leaf);
  return {.outcome = Outcome::kValue,
          .latency = point.latency,
          .power = point.BlendPower(),
          .leaf = leaf,
          .exact = true};
}

// The descent through the axes, unrolled.
template <std::size_t Axes>
class Walk {
 public:
  Walk(const GridView& grid, std::span<const double> query, int sqrt_axis, SolFunction sol)
      : table_(*grid.table), combination_{query, sqrt_axis, sol} {
    for (std::size_t a = 0; a < Axes; ++a) {
      const TableLevel& level = table_.levels[grid.level + a];
      keys_[a] = level.keys.data();
      offsets_[a] = level.child_begin.data();
    }
  }

  template <std::size_t Axis>
  Interior Resolve(std::uint32_t begin, std::uint32_t end) const {
    if (begin == end) return Interior::Missed(Miss::kEmptyBranch);
    const std::span<const double> keys(keys_[Axis] + begin, end - begin);
    const double c = combination_.query[Axis];
    const auto at = static_cast<std::uint32_t>(LowerBound(keys, c));
    if (at < keys.size() && keys[at] == c) return Child<Axis>(begin + at);
    if (at == 0 || at == keys.size()) return Interior::OutOfRange();
    return combination_.Of(Child<Axis>(begin + at - 1), Child<Axis>(begin + at), Axis, keys[at - 1],
                           keys[at]);
  }

 private:
  template <std::size_t Axis>
  Interior Child(std::uint32_t node) const {
    if constexpr (Axis + 1 == Axes) {
      return LeafValue(table_, node);
    } else {
      return Resolve<Axis + 1>(offsets_[Axis][node], offsets_[Axis][node + 1]);
    }
  }

  const Table& table_;
  Combination combination_;
  std::array<const double*, Axes> keys_;
  std::array<const std::uint32_t*, Axes> offsets_;
};

template <std::size_t Axes>
Interior Inside(const GridView& grid, std::span<const double> query, int sqrt_axis,
                SolFunction sol) {
  return Walk<Axes>(grid, query, sqrt_axis, sol).template Resolve<0>(grid.begin, grid.end);
}

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

  // `reach`: as the hold before it on the same line left it; see HoldReach.
  Anchors FromIndex(const HoldIndex& index, HoldReach* reach) {
    const HoldIndex::Leaves& leaves = index.leaves();
    keys_ = leaves.keys;
    std::array<KdTree::Hit, 64> hits;
    const double at = log_query_[query_.size() - 1];
    double within = std::numeric_limits<double>::infinity();
    // The points that were near the question before are no further than that and the way between.
    if (reach != nullptr) within = (reach->distance + std::abs(at - reach->at)) * (1 + 1e-9);
    // Unusable leaves are rare: ask for exactly five, then for more, then scan.
    for (const std::size_t ask : {std::size_t{5}, hits.size()}) {
      const std::size_t n = leaves.tree.Nearest(Log(), std::span(hits).first(ask), within);
      within = std::numeric_limits<double>::infinity();
      if (reach != nullptr && ask == 5 && n == ask) *reach = {hits[4].distance, at};
      const Anchors found = Accept(std::span(hits).first(n));
      if (found.count == 5 || n < ask) return found;
    }
    return Scan();
  }

  Anchors Scan() {
    const std::size_t axes = query_.size();
    const std::vector<double> rows = LeafCoordinates(grid_, Log2Floor);
    const std::vector<double> keys = LeafCoordinates(grid_, [](double key) { return key; });
    keys_ = keys;
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
      const double sol = sol_(keys_.subspan(hit.index * query_.size(), query_.size()));
      if (!Usable(sol)) continue;
      found.items[found.count++] = {hit.distance, sol, leaf};
      if (found.count == found.items.size()) break;
    }
    return found;
  }

  const GridView& grid_;
  std::span<const double> query_;
  SolFunction sol_;
  std::uint32_t first_;
  Coords log_query_{};
  std::span<const double> keys_;  // coordinates of the leaves, row by row
};

ResolveResult Hold(const GridView& grid, std::span<const double> query, SolFunction sol,
                   const HoldIndex* index, HoldReach* reach) {
  HoldSearch search(grid, query, sol);
  const Anchors anchors = index != nullptr ? search.FromIndex(*index, reach) : search.Scan();
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

const HoldIndex::Leaves& HoldIndex::leaves() const {
  std::call_once(once_, [&] {
    leaves_ = std::make_unique<const Leaves>(
        Leaves{KdTree(grid_.depth(), LeafCoordinates(grid_, Log2Floor)),
               LeafCoordinates(grid_, [](double key) { return key; })});
  });
  return *leaves_;
}

namespace {

// The answer that a descent stands for.
ResolveResult Answer(const GridView& grid, const Interior& inside, std::span<const double> coords,
                     SolFunction sol, const HoldIndex* hold, HoldReach* reach) {
  switch (inside.outcome) {
    case Outcome::kValue: {
      if (inside.exact) {
        const Leaf leaf = grid.table->LeafAt(inside.leaf);
        return Resolved{leaf.latency, leaf.power, leaf.energy, ResolveKind::kPoint, 0, inside.leaf};
      }
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
      return Hold(grid, coords, sol, hold, reach);
    case Outcome::kMiss:
      return std::unexpected(inside.miss);
  }
  return std::unexpected(Miss::kEmptyTable);
}

}  // namespace

ResolveResult ResolveGrid(const GridView& grid, std::span<const double> coords, int sqrt_axis,
                          SolFunction sol, const HoldIndex* hold) {
  if (grid.empty()) return std::unexpected(Miss::kEmptyTable);
  if (coords.size() == 1) return ResolveCurve(grid, coords[0], sol);
  const Interior inside = coords.size() == 2   ? Inside<2>(grid, coords, sqrt_axis, sol)
                          : coords.size() == 3 ? Inside<3>(grid, coords, sqrt_axis, sol)
                                               : Inside<4>(grid, coords, sqrt_axis, sol);
  return Answer(grid, inside, coords, sol, hold, nullptr);
}

GridLine::Fork GridLine::Locate(const GridView& level, double c) {
  Fork fork;
  if (level.empty()) return fork;
  const std::span<const double> keys = level.keys();
  const auto at = static_cast<std::uint32_t>(LowerBound(keys, c));
  if (at < keys.size() && keys[at] == c) {
    fork.kind = Fork::Kind::kExact;
    fork.low = level.begin + at;
  } else if (at == 0 || at == keys.size()) {
    fork.kind = Fork::Kind::kOutside;
  } else {
    fork.kind = Fork::Kind::kBetween;
    fork.low = level.begin + at - 1;
    fork.low_key = keys[at - 1];
    fork.high_key = keys[at];
  }
  return fork;
}

GridLine::GridLine(const GridView& grid, double first, double second, SolFunction sol,
                   const HoldIndex* hold)
    : grid_(grid), sol_(sol), hold_(hold), query_{first, second, 0} {
  outer_ = Locate(grid, first);
  if (outer_.kind != Fork::Kind::kExact && outer_.kind != Fork::Kind::kBetween) return;
  const std::uint32_t branches = outer_.kind == Fork::Kind::kExact ? 1 : 2;
  for (std::uint32_t i = 0; i < branches; ++i) {
    const GridView middle = grid.Child(outer_.low + i);
    const Fork fork = inner_[i] = Locate(middle, second);
    if (fork.kind != Fork::Kind::kExact && fork.kind != Fork::Kind::kBetween) continue;
    const std::uint32_t curves = fork.kind == Fork::Kind::kExact ? 1 : 2;
    for (std::uint32_t j = 0; j < curves; ++j) {
      const GridView curve = middle.Child(fork.low + j);
      curves_[i][j] = {curve.begin, curve.end, curve.begin};
    }
  }
}

struct LineWalk {
  GridLine& line;
  const Table& table;
  const double* keys;  // of the last level
  Combination combination;

  Interior OnCurve(GridLine::Curve& curve) const {
    if (curve.begin == curve.end) return Interior::Missed(Miss::kEmptyBranch);
    const double c = line.query_[2];
    std::uint32_t at = curve.last;
    if (at == curve.begin) {
      at += static_cast<std::uint32_t>(
          LowerBound(std::span(keys + curve.begin, curve.end - curve.begin), c));
    } else {
      while (at > curve.begin && keys[at - 1] >= c) --at;
      while (at < curve.end && keys[at] < c) ++at;
    }
    curve.last = at;
    if (at < curve.end && keys[at] == c) return LeafValue(table, at);
    if (at == curve.begin || at == curve.end) return Interior::OutOfRange();
    return combination.Of(LeafValue(table, at - 1), LeafValue(table, at), 2, keys[at - 1],
                          keys[at]);
  }

  // `branch(i)`: what the i-th branch of the fork says.
  template <typename Branch>
  Interior AtFork(const GridLine::Fork& fork, std::size_t axis, Branch&& branch) const {
    switch (fork.kind) {
      case GridLine::Fork::Kind::kEmpty:
        return Interior::Missed(Miss::kEmptyBranch);
      case GridLine::Fork::Kind::kExact:
        return branch(0);
      case GridLine::Fork::Kind::kOutside:
        return Interior::OutOfRange();
      case GridLine::Fork::Kind::kBetween:
        break;
    }
    const Interior low = branch(0);
    return combination.Of(low, branch(1), axis, fork.low_key, fork.high_key);
  }

  Interior Resolve() const {
    return AtFork(line.outer_, 0, [&](std::size_t i) {
      return AtFork(line.inner_[i], 1, [&](std::size_t j) { return OnCurve(line.curves_[i][j]); });
    });
  }
};

ResolveResult GridLine::At(double third) {
  if (grid_.empty()) return std::unexpected(Miss::kEmptyTable);
  query_[2] = third;
  const LineWalk walk{*this, *grid_.table, grid_.table->levels[grid_.level + 2].keys.data(),
                      Combination{query_, -1, sol_}};
  return Answer(grid_, walk.Resolve(), query_, sol_, hold_, &reach_);
}

}  // namespace infercast
