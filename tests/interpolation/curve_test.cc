// One-axis curves: measured points, blends, held utilisation, misses.
#include "interpolation/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "interpolation/small_table.h"

namespace infercast {
namespace {

using testing::SmallTable;

constexpr auto kProportional = [](std::span<const double> c) { return c[0]; };

// Message sizes of a two-GPU all-reduce.
SmallTable Messages() {
  return SmallTable(1, {{{1024}, 0.01, 80}, {{1048576}, 0.02, 120}, {{16777216}, 0.2, 200}});
}

TEST(Curve, AnswersAMeasuredPointVerbatim) {
  const SmallTable curve = Messages();
  const auto r = ResolveCurve(curve.root(), 1024, kProportional);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->latency, 0.01);
  EXPECT_EQ(r->energy, 0.01 * 80);
  EXPECT_EQ(r->kind, ResolveKind::kPoint);
  EXPECT_EQ(r->leaf, 0u);
}

TEST(Curve, BlendsBetweenPoints) {
  const SmallTable curve = Messages();
  const auto r = ResolveCurve(curve.root(), 1000.5 * 3, kProportional);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->latency, 0.010018877344513686);
  EXPECT_DOUBLE_EQ(r->energy, 0.8022667067581859);
  EXPECT_EQ(r->kind, ResolveKind::kInterpolated);
}

TEST(Curve, HoldsUtilisationBeyondBothEnds) {
  const SmallTable curve = Messages();
  const auto below = ResolveCurve(curve.root(), 100, kProportional);
  ASSERT_TRUE(below);
  EXPECT_EQ(below->latency, 0.0009765625);
  EXPECT_EQ(below->energy, 0.078125);
  const auto above = ResolveCurve(curve.root(), 4096.0 * 8192, kProportional);
  ASSERT_TRUE(above);
  EXPECT_EQ(above->latency, 0.4);
  EXPECT_EQ(above->energy, 80);
  EXPECT_EQ(above->kind, ResolveKind::kExtrapolated);
  EXPECT_FLOAT_EQ(above->octaves, 1.0F);
  EXPECT_EQ(above->leaf, 2u);
}

TEST(Curve, ASinglePointIsHeldInBothDirectionsUnlessToldOtherwise) {
  const SmallTable curve(1, {{{1024}, 0.8, 300}});
  const auto above = ResolveCurveNoSingletonUnderflow(curve.root(), 2048, kProportional);
  ASSERT_TRUE(above);
  EXPECT_EQ(above->latency, 1.6);
  EXPECT_EQ(above->energy, 480);
  const auto below = ResolveCurve(curve.root(), 512, kProportional);
  ASSERT_TRUE(below);
  EXPECT_EQ(below->latency, 0.4);
  EXPECT_EQ(ResolveCurveNoSingletonUnderflow(curve.root(), 512, kProportional).error(),
            Miss::kBelowSingleton);
}

TEST(Curve, BlendsLatenciesThatAreNotPositiveButHoldsOnlyPositiveOnes) {
  const SmallTable curve(1, {{{1}, 0.0}, {{3}, 1.0}});
  const auto between = ResolveCurve(curve.root(), 2, kProportional);
  ASSERT_TRUE(between);
  EXPECT_EQ(between->latency, 0.5);
  EXPECT_EQ(ResolveCurve(curve.root(), 0.5, kProportional).error(), Miss::kNoBoundaryAnchor);
}

TEST(Curve, NamesWhyItMisses) {
  const SmallTable curve = Messages();
  EXPECT_EQ(ResolveCurve(GridView{&curve.table(), 0, 1, 1}, 5, kProportional).error(),
            Miss::kEmptyTable);
  EXPECT_EQ(ResolveCurve(curve.root(), 0, kProportional).error(), Miss::kNonPositiveSol);
  const auto no_sol = [](std::span<const double>) { return 0.0; };
  EXPECT_EQ(ResolveCurve(curve.root(), 100, no_sol).error(), Miss::kNoBoundaryAnchor);
  const auto nan = [](std::span<const double>) { return std::numeric_limits<double>::quiet_NaN(); };
  EXPECT_EQ(ResolveCurve(curve.root(), 100, nan).error(), Miss::kNoBoundaryAnchor);
}

TEST(Curve, BlendsThePowerThatEnergyImplies) {
  // The second latency was raised after its energy was noted: 10 W*ms over 0.4 ms are 25 W.
  SmallTable curve(1, {{{1}, 0.1, 50}, {{3}, 0.2, 50}});
  curve.Raise([](std::span<const double> at) { return at[0] == 3 ? 0.4 : 0.0; });
  const auto r = ResolveCurve(curve.root(), 2, kProportional);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->power, (50 + 25) / 2.0);
  EXPECT_DOUBLE_EQ(r->energy, r->power * r->latency);
}

}  // namespace
}  // namespace infercast
