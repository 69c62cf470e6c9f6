#include "interpolation/kd_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace infercast {

namespace {
constexpr std::uint32_t kLeafSize = 8;
// Rounding of a distance may fall below the gap to a splitting plane by a few ulps.
constexpr double kPruneSlack = 1 - 1e-12;
}  // namespace

struct KdTree::Search {
  std::span<const double> query;
  std::span<Hit> hits;
  std::size_t count = 0;

  double Worst() const {
    return count < hits.size() ? std::numeric_limits<double>::infinity() : hits[count - 1].distance;
  }
  void Offer(Hit hit) {
    if (count == hits.size() && !(hit < hits[count - 1])) return;
    std::size_t at = count < hits.size() ? count++ : count - 1;
    while (at > 0 && hit < hits[at - 1]) {
      hits[at] = hits[at - 1];
      --at;
    }
    hits[at] = hit;
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
  if (!order_.empty()) {
    nodes_.reserve(2 * order_.size() / kLeafSize + 2);
    Build(0, size());
  }
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

void KdTree::Visit(std::uint32_t id, Search& search) const {
  const Node& node = nodes_[id];
  if (node.axis < 0) {
    for (std::uint32_t i = node.begin; i < node.end; ++i) {
      search.Offer({Distance(point(order_[i]), search.query), order_[i]});
    }
    return;
  }
  const double q = search.query[static_cast<std::size_t>(node.axis)];
  const double gap_left = std::max(q - node.low_max, 0.0);
  const double gap_right = std::max(node.high_min - q, 0.0);
  const bool left_first = gap_left <= gap_right;
  const double gaps[2] = {left_first ? gap_left : gap_right, left_first ? gap_right : gap_left};
  const std::uint32_t children[2] = {left_first ? node.left : node.right,
                                     left_first ? node.right : node.left};
  for (int i = 0; i < 2; ++i) {
    if (gaps[i] * kPruneSlack <= search.Worst()) Visit(children[i], search);
  }
}

std::size_t KdTree::Nearest(std::span<const double> query, std::span<Hit> hits) const {
  if (nodes_.empty() || hits.empty()) return 0;
  Search search{query, hits};
  Visit(0, search);
  return search.count;
}

}  // namespace infercast
