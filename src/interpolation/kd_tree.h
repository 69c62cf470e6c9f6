// Exact k-nearest search in a few dimensions.
//
// The answer is that of a full sort by (distance, point index), distances being
// sqrt(sum of squared differences in axis order): ties are decided as a scan would decide them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace infercast {

class KdTree {
 public:
  static constexpr std::size_t kMaxAxes = 8;

  struct Hit {
    double distance;
    std::uint32_t index;
    bool operator<(const Hit& o) const {
      return distance < o.distance || (distance == o.distance && index < o.index);
    }
  };

  // `points`: rows of `axes` coordinates each; at most kMaxAxes axes.
  KdTree(int axes, std::vector<double> points);

  std::uint32_t size() const { return static_cast<std::uint32_t>(order_.size()); }

  // Fills `hits` with the nearest points, ascending; returns how many (fewer when there are fewer).
  // A caller who knows that hits.size() points lie `within` a distance gets the same faster.
  std::size_t Nearest(std::span<const double> query, std::span<Hit> hits,
                      double within = std::numeric_limits<double>::infinity()) const;

  static double Distance(std::span<const double> a, std::span<const double> b);

 private:
  struct Node {
    std::uint32_t begin, end;  // of order_
    std::uint32_t left = 0, right = 0;
    int axis = -1;       // -1: leaf
    double low_max = 0;  // largest coordinate on the left, smallest on the right
    double high_min = 0;
  };
  template <std::size_t Axes>
  struct Search;
  std::uint32_t Build(std::uint32_t begin, std::uint32_t end);

  std::size_t axes_;
  std::vector<double> points_;        // rows in tree order
  std::vector<std::uint32_t> order_;  // original index of each row
  std::vector<Node> nodes_;
  std::array<double, kMaxAxes> low_{}, high_{};  // box around all points
};

}  // namespace infercast
