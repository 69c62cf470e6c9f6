// Exact k-nearest search in up to four dimensions.
//
// The answer is that of a full sort by (distance, point index), distances being
// sqrt(sum of squared differences in axis order): ties are decided as a scan would decide them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace infercast {

class KdTree {
 public:
  struct Hit {
    double distance;
    std::uint32_t index;
    bool operator<(const Hit& o) const {
      return distance < o.distance || (distance == o.distance && index < o.index);
    }
  };

  // `points`: rows of `axes` coordinates each.
  KdTree(int axes, std::vector<double> points);

  std::uint32_t size() const { return static_cast<std::uint32_t>(order_.size()); }
  std::span<const double> point(std::uint32_t i) const {
    return std::span(points_).subspan(static_cast<std::size_t>(i) * axes_, axes_);
  }

  // Fills `hits` with the nearest points, ascending; returns how many (fewer when there are fewer).
  std::size_t Nearest(std::span<const double> query, std::span<Hit> hits) const;

  static double Distance(std::span<const double> a, std::span<const double> b);

 private:
  struct Node {
    std::uint32_t begin, end;  // of order_
    std::uint32_t left = 0, right = 0;
    int axis = -1;       // -1: leaf
    double low_max = 0;  // largest coordinate on the left, smallest on the right
    double high_min = 0;
  };
  struct Search;
  std::uint32_t Build(std::uint32_t begin, std::uint32_t end);
  void Visit(std::uint32_t node, Search& search) const;

  std::size_t axes_;
  std::vector<double> points_;
  std::vector<std::uint32_t> order_;
  std::vector<Node> nodes_;
};

}  // namespace infercast
