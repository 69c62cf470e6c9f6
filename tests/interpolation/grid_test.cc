// Nested grids: the worked cases of encoder attention and MLA decode, ragged branches, and the hold
// index against a scan of all leaves.
#include "interpolation/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "interpolation/small_table.h"

namespace infercast {
namespace {

using testing::Point;
using testing::SmallTable;

// Encoder attention, head size 64, over (heads, sequence, batch): long sequences lack big batches.
std::vector<Point> EncoderPoints() {
  return {
      {{8, 128, 1}, 0.001711, 120},   {{8, 128, 2}, 0.003213, 130},  {{8, 128, 4}, 0.005724, 150},
      {{8, 128, 8}, 0.009396, 190},   {{8, 512, 1}, 0.016489, 126},  {{8, 512, 2}, 0.031069, 136},
      {{8, 512, 4}, 0.055692, 156},   {{8, 512, 8}, 0.092246, 196},  {{8, 1024, 1}, 0.061147, 134},
      {{8, 1024, 2}, 0.115705, 144},  {{8, 1024, 4}, 0.208899, 164}, {{8, 4096, 1}, 0.68066, 182},
      {{8, 4096, 2}, 1.309441, 192},  {{16, 128, 1}, 0.002714, 128}, {{16, 128, 2}, 0.00516, 138},
      {{16, 128, 4}, 0.009396, 158},  {{16, 128, 8}, 0.015936, 198}, {{16, 512, 1}, 0.026473, 134},
      {{16, 512, 2}, 0.050458, 144},  {{16, 512, 4}, 0.092246, 164}, {{16, 512, 8}, 0.15744, 204},
      {{16, 1024, 1}, 0.099605, 142}, {{16, 1024, 2}, 0.19038, 152}, {{16, 1024, 4}, 0.349753, 172},
      {{16, 4096, 1}, 1.175094, 190}};
}

double EncoderSol(std::span<const double> c) {
  const double n = c[0], s = c[1], b = c[2];
  return std::max(2.0 * b * s * s * n * 64.0 * 2.0 / 1e14 * 1000.0,
                  2.0 * b * (3.0 * n * s * 64.0 + n * s * 64.0) / 1e12 * 1000.0);
}

// MLA decode over (heads, batch, sequence), a staircase.
std::vector<Point> DecodePoints() {
  return {{{16, 1, 1024}, 0.010697, 216.5},  {{16, 1, 4096}, 0.011286, 216.5},
          {{16, 1, 16384}, 0.013646, 216.5}, {{16, 8, 1024}, 0.012987, 220},
          {{16, 8, 4096}, 0.017706, 220},    {{16, 8, 16384}, 0.03658, 220},
          {{16, 64, 1024}, 0.024486, 248},   {{16, 64, 4096}, 0.055943, 248},
          {{16, 256, 1024}, 0.059943, 344},  {{32, 1, 1024}, 0.010893, 232.5},
          {{32, 1, 4096}, 0.012073, 232.5},  {{32, 1, 16384}, 0.016791, 232.5},
          {{32, 8, 1024}, 0.01456, 236},     {{32, 8, 4096}, 0.023997, 236},
          {{32, 8, 16384}, 0.061746, 236},   {{32, 64, 1024}, 0.034972, 264},
          {{32, 64, 4096}, 0.097886, 264},   {{32, 256, 1024}, 0.101886, 360}};
}

double DecodeSol(std::span<const double> c) {
  const double n = c[0], b = c[1], s = c[2];
  return std::max(2.0 * b * n * 1088.0 * s / 1e14 * 1000.0,
                  b * (n * 1088.0 * 2.0 + (s - 1.0) * 576.0 * 2.0) / 1e12 * 1000.0);
}

struct Case {
  const char* name;
  std::array<double, 3> at;
  double latency, energy;
  ResolveKind kind;
};

void Check(const SmallTable& grid, int sqrt_axis, SolFunction sol, std::span<const Case> cases) {
  const auto index = HoldIndex::Build(grid.root());
  for (const Case& c : cases) {
    for (const HoldIndex* hold : {index.get(), static_cast<const HoldIndex*>(nullptr)}) {
      const auto r = ResolveGrid(grid.root(), c.at, sqrt_axis, sol, hold);
      ASSERT_TRUE(r) << c.name;
      EXPECT_DOUBLE_EQ(r->latency, c.latency) << c.name;
      EXPECT_NEAR(r->energy, c.energy, 1e-15 * c.energy * 4) << c.name;
      EXPECT_EQ(r->kind, c.kind) << c.name;
      EXPECT_EQ(r->octaves > 0, c.kind == ResolveKind::kExtrapolated) << c.name;
    }
  }
}

TEST(Grid, EncoderAttentionExamples) {
  const SmallTable grid(3, EncoderPoints());
  const auto sol = [](std::span<const double> c) { return EncoderSol(c); };
  using enum ResolveKind;
  const std::array cases = {
      Case{"on a point", {8, 512, 2}, 0.031068999999999999, 4.225384, kPoint},
      Case{
          "sequence between", {8, 300, 2}, 0.012154072148640208, 1.6126934482226976, kInterpolated},
      Case{"batch between", {8, 512, 3}, 0.043380500000000002, 6.3335530000000002, kInterpolated},
      Case{"heads between", {12, 512, 2}, 0.040763500000000001, 5.7068900000000005, kInterpolated},
      Case{"all between", {12, 700, 3}, 0.10387232731880988, 15.885974059320485, kInterpolated},
      Case{"a sequence branch too short",
           {8, 2000, 3},
           0.61913299560546864,
           95.346481323242173,
           kExtrapolated},
      Case{"a head branch too short",
           {12, 4096, 2},
           1.9641615000000001,
           377.11900800000001,
           kExtrapolated},
      Case{"sequence beyond", {8, 8192, 1}, 2.6203955482043626, 486.18222523156015, kExtrapolated},
      Case{"batch beyond", {8, 512, 16}, 0.17918791183430832, 35.325281010916697, kExtrapolated},
      Case{"sequence below",
           {8, 64, 1},
           0.00080693383868718851,
           0.099513580381485223,
           kExtrapolated},
      Case{"heads beyond", {32, 512, 2}, 0.10012768885094064, 14.550814739786519, kExtrapolated},
      Case{"both branches too short",
           {8, 3000, 8},
           3.2567210886339093,
           560.45247546814983,
           kExtrapolated}};
  Check(grid, 1, sol, cases);
}

TEST(Grid, StaircaseExamples) {
  const SmallTable grid(3, DecodePoints());
  const auto sol = [](std::span<const double> c) { return DecodeSol(c); };
  using enum ResolveKind;
  const std::array cases = {
      Case{"batch between", {16, 4, 4096}, 0.01403742857142857, 3.0601594285714286, kInterpolated},
      Case{"beyond the stair",
           {16, 64, 16384},
           0.26700989149089621,
           67.361948641722975,
           kExtrapolated},
      Case{"far beyond", {16, 200, 65536}, 3.5885493378729887, 897.09929972180817, kExtrapolated},
      Case{"below", {16, 1, 128}, 0.0011846906895775337, 0.26490207378054542, kExtrapolated},
      Case{"a batch branch too short",
           {16, 32, 10000},
           0.10709746875000001,
           23.561443125,
           kExtrapolated},
      Case{"heads between, both branches too short",
           {24, 256, 2000},
           0.14996335889769591,
           52.947900387912497,
           kExtrapolated}};
  Check(grid, -1, sol, cases);
}

TEST(Grid, OneAxisIsACurve) {
  const SmallTable grid(1, {{{4}, 0.02, 100}, {{16}, 0.03, 150}, {{64}, 0.08, 200}});
  const auto sol = [](std::span<const double> c) {
    const double t = c[0];
    return std::max(2.0 * t * 32 * 128 * 512 / 1e14 * 1000,
                    32 * (t * 640 + 65536) * 2 / 1e12 * 1000);
  };
  const struct {
    double tokens, latency, energy;
  } cases[] = {{16, 0.03, 4.5},
               {40, 0.055, 9.625},
               {1, 0.019436090225563907, 1.9436090225563907},
               {1000, 0.53, 106}};
  for (const auto& c : cases) {
    const auto r = ResolveGrid(grid.root(), std::array{c.tokens}, -1, sol);
    ASSERT_TRUE(r);
    EXPECT_DOUBLE_EQ(r->latency, c.latency);
    EXPECT_DOUBLE_EQ(r->energy, c.energy);
  }
}

TEST(Grid, AFractionalCoordinateIsNoKey) {
  const SmallTable grid(2, {{{1, 1}, 1.0}, {{1, 2}, 2.0}, {{2, 1}, 3.0}, {{2, 2}, 4.0}});
  const auto sol = [](std::span<const double> c) { return c[0] * c[1]; };
  const auto r = ResolveGrid(grid.root(), std::array{1.5, 1.25}, -1, sol);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->latency, 1.25 + (3.25 - 1.25) * 0.5);
  EXPECT_EQ(r->kind, ResolveKind::kInterpolated);
}

TEST(Grid, AnExactOuterKeyDoesNotAskItsNeighbours) {
  // Key 2 is there but short, keys 1 and 3 cover the query: the hold answers, not a blend.
  const SmallTable grid(
      2, {{{1, 1}, 1.0}, {{1, 8}, 1.0}, {{2, 1}, 7.0}, {{3, 1}, 1.0}, {{3, 8}, 1.0}});
  const auto sol = [](std::span<const double>) { return 1.0; };
  const auto on_key = ResolveGrid(grid.root(), std::array{2.0, 4.0}, -1, sol);
  ASSERT_TRUE(on_key);
  EXPECT_EQ(on_key->kind, ResolveKind::kExtrapolated);
  EXPECT_GT(on_key->latency, 1.0);
}

TEST(Grid, NegativeAndZeroLatenciesBlendAsZeroInSquareRootSpace) {
  const SmallTable grid(2, {{{1, 1}, 0.0}, {{1, 3}, 4.0}, {{2, 1}, 0.0}, {{2, 3}, 4.0}});
  const auto sol = [](std::span<const double>) { return 1.0; };
  const auto r = ResolveGrid(grid.root(), std::array{1.0, 2.0}, 1, sol);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->latency, 1.0);  // (0 + (2 - 0) * 0.5)^2
}

TEST(Grid, NamesWhyItMisses) {
  const SmallTable grid(2, {{{1, 1}, 0.0}, {{1, 3}, 0.0}});
  const auto sol = [](std::span<const double> c) { return c[0]; };
  EXPECT_EQ(ResolveGrid(grid.root(), std::array{5.0, 5.0}, -1, sol).error(),
            Miss::kNoBoundaryAnchor);
  EXPECT_EQ(ResolveGrid(GridView{&grid.table(), 0, 0, 0}, std::array{5.0, 5.0}, -1, sol).error(),
            Miss::kEmptyTable);
  const SmallTable usable(2, {{{1, 1}, 1.0}});
  EXPECT_EQ(ResolveGrid(usable.root(), std::array{0.0, 5.0}, -1, sol).error(),
            Miss::kNonPositiveSol);
}

// A ragged grid of small integer keys (many equal distances), some leaves unusable.
std::vector<Point> RandomPoints(std::mt19937& random, std::size_t axes, bool powers_of_two) {
  std::uniform_int_distribution<int> key(0, 6);
  std::uniform_int_distribution<int> percent(0, 99);
  std::uniform_real_distribution<double> latency(0.01, 10);
  const int count = std::uniform_int_distribution<int>(1, 120)(random);
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    Point point{std::vector<double>(axes), latency(random), 100.0 + i};
    for (double& k : point.keys) {
      k = powers_of_two ? std::exp2(key(random)) : key(random);
    }
    if (percent(random) < 15) point.latency = percent(random) < 50 ? 0 : -1;
    points.push_back(std::move(point));
  }
  return points;
}

TEST(Grid, TheHoldIndexAnswersAsAScanDoes) {
  std::mt19937 random(20240607);
  int holds = 0;
  int queries = 0;
  for (int round = 0; round < 600; ++round) {
    const std::size_t axes = 2 + static_cast<std::size_t>(round % 3);
    const SmallTable grid(axes, RandomPoints(random, axes, round % 2 == 0));
    const auto index = HoldIndex::Build(grid.root());
    // Every seventh leaf has no speed of light.
    const auto sol = [](std::span<const double> c) {
      double product = 1;
      double sum = 0;
      for (const double v : c) {
        product *= v + 0.5;
        sum += v;
      }
      return std::fmod(sum, 7) == 3 ? 0.0 : product;
    };
    std::uniform_int_distribution<int> coordinate(-1, 80);
    for (int q = 0; q < 40; ++q) {
      std::array<double, kMaxGridAxes> at{};
      for (std::size_t a = 0; a < axes; ++a) {
        at[a] = coordinate(random);
        if (q % 4 == 0) at[a] = std::exp2(std::fmod(std::abs(at[a]), 9));
        if (q % 5 == 0) at[a] += 0.5;
      }
      const std::span<const double> query = std::span(at).first(axes);
      const auto indexed = ResolveGrid(grid.root(), query, -1, sol, index.get());
      const auto scanned = ResolveGrid(grid.root(), query, -1, sol, nullptr);
      ++queries;
      ASSERT_EQ(indexed.has_value(), scanned.has_value());
      if (!indexed) {
        EXPECT_EQ(indexed.error(), scanned.error());
        continue;
      }
      if (indexed->kind == ResolveKind::kExtrapolated) ++holds;
      EXPECT_EQ(indexed->latency, scanned->latency);
      EXPECT_EQ(indexed->power, scanned->power);
      EXPECT_EQ(indexed->octaves, scanned->octaves);
      EXPECT_EQ(indexed->leaf, scanned->leaf);
    }
  }
  EXPECT_GT(holds, queries / 4);
}

TEST(GridLine, AnswersAsTheGridDoesInAnyOrder) {
  std::mt19937 random(31);
  std::array<int, 3> kinds{};
  int misses = 0;
  for (int round = 0; round < 400; ++round) {
    const SmallTable grid(3, RandomPoints(random, 3, round % 2 == 0));
    const auto index = HoldIndex::Build(grid.root());
    const auto sol = [](std::span<const double> c) { return (c[0] + 1) * (c[1] + 2) * (c[2] + 3); };
    std::uniform_int_distribution<int> coordinate(0, 13);
    for (int q = 0; q < 10; ++q) {
      const double first = coordinate(random) / 2.0;
      const double second = coordinate(random) / 2.0;
      GridLine line(grid.root(), first, second, sol, index.get());
      for (int i = 0; i < 6; ++i) {
        const double third = q % 2 == 0 ? i * 1.5 : coordinate(random) / 2.0;
        const auto r = line.At(third);
        const auto expected =
            ResolveGrid(grid.root(), std::array{first, second, third}, -1, sol, index.get());
        ASSERT_EQ(r.has_value(), expected.has_value());
        if (!r) {
          EXPECT_EQ(r.error(), expected.error());
          ++misses;
          continue;
        }
        EXPECT_EQ(r->latency, expected->latency);
        EXPECT_EQ(r->power, expected->power);
        EXPECT_EQ(r->energy, expected->energy);
        EXPECT_EQ(r->kind, expected->kind);
        EXPECT_EQ(r->octaves, expected->octaves);
        EXPECT_EQ(r->leaf, expected->leaf);
        ++kinds[static_cast<std::size_t>(r->kind)];
      }
    }
  }
  for (const int count : kinds) EXPECT_GT(count, 100);
  EXPECT_GT(misses, 10);
}

}  // namespace
}  // namespace infercast
