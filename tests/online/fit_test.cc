// Regressions on a handful of samples.
#include "online/fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace infercast {
namespace {

std::vector<Sample> OneAxis(std::initializer_list<std::pair<double, double>> points) {
  std::vector<Sample> samples;
  for (const auto& [x, y] : points) samples.push_back({.x = {x, 0.0}, .value = y});
  return samples;
}

double At(const Fit& fit, std::initializer_list<double> x) {
  return fit.At(std::span<const double>(x.begin(), x.size()));
}

TEST(FitLine, NeedsEnoughSamples) {
  const auto samples = OneAxis({{1, 3}, {2, 5}});
  EXPECT_FALSE(FitLine(samples, 1, 3));
  const auto fit = FitLine(samples, 1, 2);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept, 1.0, 1e-12);
  EXPECT_NEAR(fit->slopes[0], 2.0, 1e-12);
}

TEST(FitLine, FallingTimesAreNoLoadSignal) {
  EXPECT_FALSE(FitLine(OneAxis({{100, 20}, {200, 19}, {300, 18}, {400, 17}, {500, 16}}), 1, 5));
}

TEST(FitLine, OneSampleIsItsOwnAverage) {
  const auto fit = FitLine(OneAxis({{100, 20}}), 1, 1);
  ASSERT_TRUE(fit);
  EXPECT_DOUBLE_EQ(At(*fit, {12345.0}), 20.0);
}

TEST(FitLine, ADependenceThatFallsIsLeftOut) {
  // y = 10 + 2 a - b: only the first axis may take part.
  std::vector<Sample> samples;
  for (const double a : {1.0, 2.0, 3.0, 5.0}) {
    for (const double b : {1.0, 4.0}) samples.push_back({.x = {a, b}, .value = 10 + 2 * a - b});
  }
  const auto fit = FitLine(samples, 2, 5);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->slopes[0], 2.0, 1e-12);
  EXPECT_EQ(fit->slopes[1], 0.0);
}

TEST(FitLine, CollinearAxesShareTheSlope) {
  std::vector<Sample> samples;
  for (const double a : {1.0, 2.0, 3.0, 4.0, 5.0}) {
    samples.push_back({.x = {a, a}, .value = 1 + 3 * a});
  }
  const auto fit = FitLine(samples, 2, 5);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(At(*fit, {10.0, 10.0}), 31.0, 1e-6);
}

TEST(FitLine, DecodeOfTwoAxes) {
  std::vector<Sample> samples = {{.x = {1, 1000}, .value = 6.1},
                                 {.x = {8, 9000}, .value = 7.5},
                                 {.x = {32, 40000}, .value = 11.4},
                                 {.x = {64, 100000}, .value = 18.0},
                                 {.x = {128, 128000}, .value = 26.1}};
  const auto fit = FitSamples(samples, 2, 5);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept, 6.037421647303551, 1e-9);
  EXPECT_NEAR(fit->slopes[0], 0.10336882381551887, 1e-10);
  EXPECT_NEAR(fit->slopes[1], 5.333797055563435e-05, 1e-13);
}

TEST(FitBentLine, NeedsThreeDistinctSizes) {
  EXPECT_FALSE(FitBentLine(OneAxis({{1, 1}, {1, 2}, {2, 3}, {2, 3}, {1, 1}, {2, 2}})));
}

TEST(FitBentLine, FindsWhereTimeStartsToGrow) {
  const auto samples =
      OneAxis({{128, 10}, {512, 12}, {1024, 16}, {2048, 30}, {4096, 62}, {6144, 91}});
  const auto fit = FitSamples(samples, 1, 5);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->knot, 1099.59531121739, 1e-8);
  EXPECT_NEAR(At(*fit, {64}), 9.3992234508548158, 1e-9);
  EXPECT_NEAR(At(*fit, {768}), 14.017548048270573, 1e-9);
  EXPECT_NEAR(At(*fit, {3000}), 44.611891737397649, 1e-9);
  EXPECT_NEAR(At(*fit, {20000}), 298.83335260059346, 1e-8);
}

TEST(FitBentLine, NeverFalls) {
  // Falls first, then rises: the falling part is made flat or the knot refused.
  const auto fit = FitSamples(
      OneAxis({{1, 30}, {2, 29}, {4, 28}, {8, 40}, {16, 80}, {32, 160}, {64, 320}}), 1, 5);
  ASSERT_TRUE(fit);
  double last = At(*fit, {1.0});
  for (double x = 2.0; x < 100.0; x += 1.0) {
    EXPECT_GE(At(*fit, {x}), last);
    last = At(*fit, {x});
  }
}

}  // namespace
}  // namespace infercast
