// Estimates in utilisation space.
#include "interpolation/utilisation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "interpolation/small_table.h"

namespace infercast {
namespace {

using testing::SmallTable;

constexpr auto kProduct = [](std::span<const double> c) {
  double p = 1;
  for (const double v : c) p *= v;
  return p;
};

TEST(Utilisation, ASampleIsReproduced) {
  const SmallTable grid(2, {{{1, 1}, 2.0}, {{4, 2}, 10.0}, {{16, 8}, 200.0}});
  const auto util = UtilGrid::Build(grid.root(), kProduct);
  EXPECT_EQ(util->Lookup(std::array{4.0, 2.0}), 0.8);
  const auto estimate = EstimateFromUtilisation(util.get(), std::array{4.0, 2.0}, 8, 1, "x");
  ASSERT_TRUE(estimate);
  EXPECT_EQ(*estimate, 10.0);
}

TEST(Utilisation, TheTwoNearestSamplesAreWeightedByDistance) {
  const SmallTable curve(1, {{{1}, 2.0}, {{16}, 20.0}, {{256}, 1024.0}});
  const auto util = UtilGrid::Build(curve.root(), kProduct);
  // 2 lies at a quarter of the way from 1 to 16 in log space: weights 1/(1/8) and 1/(3/8).
  const auto found = util->Lookup(std::array{2.0});
  ASSERT_TRUE(found);
  EXPECT_NEAR(*found, (0.5 * 8 + 0.8 * 8 / 3) / (8 + 8.0 / 3), 1e-15);
}

TEST(Utilisation, OutsideTheBoxTheEdgeCounts) {
  const SmallTable curve(1, {{{1}, 2.0}, {{16}, 20.0}});
  const auto util = UtilGrid::Build(curve.root(), kProduct);
  EXPECT_EQ(util->Lookup(std::array{1000.0}), 0.8);
  EXPECT_EQ(util->Lookup(std::array{0.0}), 0.5);
  const auto scaled = EstimateFromUtilisation(util.get(), std::array{1000.0}, 1000, 0.5, "x");
  ASSERT_TRUE(scaled);
  EXPECT_EQ(*scaled, 1000 / (0.8 * 0.5));
}

TEST(Utilisation, RowsWithoutTimeOrSpeedOfLightAreNoSamples) {
  const SmallTable curve(1, {{{0}, 1.0}, {{1}, 0.0}, {{2}, -1.0}});
  const auto util = UtilGrid::Build(curve.root(), kProduct);
  EXPECT_TRUE(util->empty());
  EXPECT_FALSE(util->Lookup(std::array{1.0}));
  for (const UtilGrid* grid : {util.get(), static_cast<const UtilGrid*>(nullptr)}) {
    const auto estimate = EstimateFromUtilisation(grid, std::array{1.0}, 1, 1, "x");
    ASSERT_FALSE(estimate);
    EXPECT_EQ(estimate.error().kind, ErrorKind::kEmpiricalNotImplemented);
  }
}

TEST(Utilisation, LookupAnswersAsAStableSortDoes) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> exponent(0, 5);
  for (int round = 0; round < 300; ++round) {
    const std::size_t axes = 1 + static_cast<std::size_t>(round % 4);
    std::vector<double> coords;
    std::vector<double> latencies;
    const int count = std::uniform_int_distribution<int>(1, 60)(random);
    for (int i = 0; i < count; ++i) {
      for (std::size_t a = 0; a < axes; ++a) coords.push_back(std::exp2(exponent(random)));
      latencies.push_back(1.0 + i);
    }
    const auto util = UtilGrid::Build(static_cast<int>(axes), coords, latencies, kProduct);

    std::vector<double> low(axes, 1e300);
    std::vector<double> high(axes, -1e300);
    for (std::size_t i = 0; i < coords.size(); ++i) {
      low[i % axes] = std::min(low[i % axes], std::log(coords[i]));
      high[i % axes] = std::max(high[i % axes], std::log(coords[i]));
    }
    for (int q = 0; q < 20; ++q) {
      std::vector<double> x;
      for (std::size_t a = 0; a < axes; ++a) x.push_back(std::exp2(exponent(random)) * 1.1);
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t i = 0; i < latencies.size(); ++i) {
        double sum = 0;
        for (std::size_t a = 0; a < axes; ++a) {
          const double span = high[a] - low[a] > 0 ? high[a] - low[a] : 1;
          const double z = std::clamp((std::log(x[a]) - low[a]) / span, 0.0, 1.0);
          const double d = (std::log(coords[i * axes + a]) - low[a]) / span - z;
          sum += d * d;
        }
        order.emplace_back(std::sqrt(sum), i);
      }
      std::sort(order.begin(), order.end());
      const auto sample = [&](std::size_t i) {
        return kProduct(std::span(coords).subspan(i * axes, axes)) / latencies[i];
      };
      double expected = sample(order[0].second);
      if (order[0].first != 0) {
        double top = expected / order[0].first;
        double bottom = 1 / order[0].first;
        if (order.size() > 1) {
          top += sample(order[1].second) / order[1].first;
          bottom += 1 / order[1].first;
        }
        expected = top / bottom;
      }
      const auto found = util->Lookup(x);
      ASSERT_TRUE(found);
      EXPECT_NEAR(*found, expected, 1e-13 * expected);
    }
  }
}

TEST(NearestCandidate, QueriesAreNotClampedAndTheFirstOfEqualsWins) {
  const std::vector<double> candidates = {1, 1, 4, 1, 16, 1, 4, 1};
  EXPECT_EQ(NearestCandidate(candidates, std::array{5.0, 1.0}), 1u);
  EXPECT_EQ(NearestCandidate(candidates, std::array{2.0, 7.0}), 0u);  // as near to 1 as to 4
  EXPECT_EQ(NearestCandidate(candidates, std::array{4000.0, 1.0}), 2u);
  EXPECT_FALSE(NearestCandidate({}, std::array{1.0, 1.0}));
}

}  // namespace
}  // namespace infercast
