#include "interpolation/kd_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace infercast {

namespace {

constexpr std::uint32_t kLeafSize = 8;
// Bounds and distances are rounded differently; what lies within a few ulps of the worst hit is
// looked at, never pruned.
constexpr double kSlack = 1 + 1e-12;

}  // namespace

// `Axes`: number of axes, 0 where it is known at run time only.
template <std::size_t Axes>
struct KdTree::Search {
  const KdTree& tree;
  const double* query;
  std::span<Hit> hits;
  double limit;  // of squared distances worth a look
  std::size_t count = 0;
  std::array<double, kMaxAxes> gap{};  // to the box of the node, per axis

  std::size_t axes() const { return Axes == 0 ? tree.axes_ : Axes; }

  double GapSquared() const {
    double sum = 0;
    for (std::size_t a = 0; a < axes(); ++a) sum += gap[a] * gap[a];
    return sum;
  }

  void Offer(double squared, std::uint32_t index) {
    if (squared > limit) return;
    const Hit hit{std::sqrt(squared), index};
    if (count == hits.size() && !(hit < hits[count - 1])) return;
    std::size_t at = count < hits.size() ? count++ : count - 1;
    while (at > 0 && hit < hits[at - 1]) {
      hits[at] = hits[at - 1];
      --at;
    }
    hits[at] = hit;
    if (count == hits.size()) {
      const double worst = hits[count - 1].distance;
      limit = worst * worst * kSlack;
    }
  }

  void Visit(std::uint32_t id) {
    const Node& node = tree.nodes_[id];
    if (node.axis < 0) {
      const double* row = tree.points_.data() + std::size_t{node.begin} * axes();
      for (std::uint32_t i = node.begin; i < node.end; ++i, row += axes()) {
        double sum = 0;
        for (std::size_t a = 0; a < axes(); ++a) {
          const double d = row[a] - query[a];
          sum += d * d;
        }
        Offer(sum, tree.order_[i]);
      }
      return;
    }
    const auto axis = static_cast<std::size_t>(node.axis);
    const double q = query[axis];
    const double outer = gap[axis];
    const double left = std::max(q - node.low_max, outer);
    const double right = std::max(node.high_min - q, outer);
    const bool left_first = left <= right;
    gap[axis] = left_first ? left : right;
    if (GapSquared() <= limit) Visit(left_first ? node.left : node.right);
    gap[axis] = left_first ? right : left;
    if (GapSquared() <= limit) Visit(left_first ? node.right : node.left);
    gap[axis] = outer;
  }

  std::size_t Run() {
    for (std::size_t a = 0; a < axes(); ++a) {
      gap[a] = std::max({tree.low_[a] - query[a], query[a] - tree.high_[a], 0.0});
    }
    Visit(0);
    return count;
  }
};

double KdTree::Distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = a[i] - b[i];
    sum += d * d;
  }
  return std::sqrt(sum);
}

KdTree::KdTree(int axes, std::vector<double> points)
    : axes_(static_cast<std::size_t>(axes)), points_(std::move(points)) {
  order_.resize(axes_ == 0 ? 0 : points_.size() / axes_);
  std::iota(order_.begin(), order_.end(), 0U);
  if (order_.empty()) return;
  for (std::size_t a = 0; a < axes_; ++a) {
    low_[a] = std::numeric_limits<double>::infinity();
    high_[a] = -low_[a];
    for (std::size_t i = a; i < points_.size(); i += axes_) {
      low_[a] = std::min(low_[a], points_[i]);
      high_[a] = std::max(high_[a], points_[i]);
    }
  }
  nodes_.reserve(2 * order_.size() / kLeafSize + 2);
  Build(0, size());
  // Rows of one leaf side by side.
  std::vector<double> sorted;
  sorted.reserve(points_.size());
  for (const std::uint32_t i : order_) {
    const auto row = std::span(points_).subspan(i * axes_, axes_);
    sorted.insert(sorted.end(), row.begin(), row.end());
  }
  points_ = std::move(sorted);
}

std::uint32_t KdTree::Build(std::uint32_t begin, std::uint32_t end) {
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.begin = begin, .end = end});
  if (end - begin <= kLeafSize) return id;

  std::size_t axis = 0;
  double widest = -1;
  for (std::size_t a = 0; a < axes_; ++a) {
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (std::uint32_t i = begin; i < end; ++i) {
      const double v = points_[order_[i] * axes_ + a];
      low = std::min(low, v);
      high = std::max(high, v);
    }
    if (high - low > widest) {
      widest = high - low;
      axis = a;
    }
  }
  if (!(widest > 0)) return id;  // all points coincide

  const std::uint32_t mid = begin + (end - begin) / 2;
  const auto coordinate = [&](std::uint32_t p) { return points_[p * axes_ + axis]; };
  std::nth_element(order_.begin() + begin, order_.begin() + mid, order_.begin() + end,
                   [&](std::uint32_t a, std::uint32_t b) { return coordinate(a) < coordinate(b); });
  double low_max = -std::numeric_limits<double>::infinity();
  for (std::uint32_t i = begin; i < mid; ++i) low_max = std::max(low_max, coordinate(order_[i]));
  nodes_[id].axis = static_cast<int>(axis);
  nodes_[id].low_max = low_max;
  nodes_[id].high_min = coordinate(order_[mid]);
  const std::uint32_t left = Build(begin, mid);
  const std::uint32_t right = Build(mid, end);
  nodes_[id].left = left;
  nodes_[id].right = right;
  return id;
}

std::size_t KdTree::Nearest(std::span<const double> query, std::span<Hit> hits,
                            double within) const {
  if (nodes_.empty() || hits.empty()) return 0;
  const double limit = within * within * kSlack;
  switch (axes_) {
    case 1:
      return Search<1>{*this, query.data(), hits, limit}.Run();
    case 2:
      return Search<2>{*this, query.data(), hits, limit}.Run();
    case 3:
      return Search<3>{*this, query.data(), hits, limit}.Run();
    case 4:
      return Search<4>{*this, query.data(), hits, limit}.Run();
    default:
      return Search<0>{*this, query.data(), hits, limit}.Run();
  }
}

}  // namespace infercast
