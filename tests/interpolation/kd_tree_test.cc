// Nearest points of the tree against a full sort.
#include "interpolation/kd_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace infercast {
namespace {

TEST(KdTree, AnswersAsAFullSortByDistanceThenIndex) {
  std::mt19937 random(7);
  int ties = 0;
  for (int round = 0; round < 1500; ++round) {
    const int axes = 1 + round % 4;
    const std::size_t width = static_cast<std::size_t>(axes);
    const int count = std::uniform_int_distribution<int>(0, 200)(random);
    // A coarse lattice makes most distances equal to others; a fine one makes few.
    std::uniform_int_distribution<int> lattice(0, round % 3 == 0 ? 3 : 1000);
    std::vector<double> points;
    for (int i = 0; i < count * axes; ++i) points.push_back(lattice(random) * 0.37);
    const KdTree tree(axes, points);
    ASSERT_EQ(tree.size(), static_cast<std::uint32_t>(count));

    std::vector<double> query;
    for (int a = 0; a < axes; ++a) query.push_back(lattice(random) * (round % 2 == 0 ? 0.37 : 0.4));
    std::vector<KdTree::Hit> all;
    for (std::uint32_t i = 0; i < tree.size(); ++i) {
      all.push_back({KdTree::Distance(std::span(points).subspan(i * width, width), query), i});
    }
    std::sort(all.begin(), all.end());

    for (const std::size_t ask :
         {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{64}}) {
      std::vector<KdTree::Hit> hits(ask);
      const std::size_t n = tree.Nearest(query, hits);
      ASSERT_EQ(n, std::min(ask, all.size()));
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(hits[i].index, all[i].index);
        ASSERT_EQ(hits[i].distance, all[i].distance);
        if (i > 0 && hits[i].distance == hits[i - 1].distance) ++ties;
      }
    }
  }
  EXPECT_GT(ties, 1000);
}

TEST(KdTree, AllPointsMayCoincide) {
  const KdTree tree(2, std::vector<double>(200, 1.5));
  std::vector<KdTree::Hit> hits(3);
  ASSERT_EQ(tree.Nearest(std::vector{1.5, 2.5}, hits), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(hits[i].index, i);
    EXPECT_EQ(hits[i].distance, 1.0);
  }
}

}  // namespace
}  // namespace infercast
