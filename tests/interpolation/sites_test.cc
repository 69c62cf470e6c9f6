// Scattered sites: matrix products whose shape was or was not measured.
#include "interpolation/sites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>

#include "interpolation/small_table.h"

namespace infercast {
namespace {

using testing::Point;
using testing::SmallTable;

struct Curve {
  double n, k;
  std::vector<std::array<double, 3>> points;  // m, latency, power
};

std::vector<Point> Rows(const std::vector<Curve>& curves) {
  std::vector<Point> rows;
  for (const Curve& curve : curves) {
    for (const auto& [m, latency, power] : curve.points) {
      rows.push_back({{m, curve.n, curve.k}, latency, power});
    }
  }
  return rows;
}

double Sol(double m, double n, double k, double flops, double bytes) {
  return std::max(2.0 * m * n * k / flops * 1000.0,
                  bytes * (m * n + m * k + n * k) / 1e12 * 1000.0);
}

// Rows raised to their speed of light, as matrix products are when they are loaded.
class Products {
 public:
  Products(const std::vector<Curve>& curves, double flops, double bytes)
      : flops_(flops), bytes_(bytes), table_(3, Rows(curves)) {
    table_.Raise(
        [&](std::span<const double> at) { return Sol(at[0], at[1], at[2], flops_, bytes_); });
    sites_ = SiteIndex::BuildGemm(table_.root());
  }
  ResolveResult At(double m, double n, double k) const {
    return sites_->Resolve(std::array{n, k}, m, [&](std::span<const double> at) {
      return Sol(at[2], at[0], at[1], flops_, bytes_);
    });
  }

 private:
  double flops_;
  double bytes_;
  SmallTable table_;
  std::shared_ptr<const SiteIndex> sites_;
};

Products Bfloat16() {
  return Products(
      {{4096,
        1024,
        {{16, 0.024436, 200}, {32, 0.021791, 220}, {64, 0.018088, 250}, {128, 0.019523, 300}}},
       {5120,
        2048,
        {{16, 0.053002, 210}, {64, 0.048642, 260}, {256, 0.089478, 380}, {1024, 0.306783, 500}}},
       {1536, 4096, {{16, 0.025526, 300}, {64, 0.026608, 300}}},
       {1024, 6144, {{16, 0.051249, 150}, {64, 0.054002, 150}}},
       {256, 256, {{8, 0.001393, 90}}},
       {8192, 8192, {{16, 0.05, 400}, {64, 0.3, 450}}}},
      1e14, 2);
}

TEST(Sites, MatrixProductExamples) {
  const Products products = Bfloat16();
  using enum ResolveKind;
  const struct {
    const char* name;
    double m, n, k, latency, energy;
    ResolveKind kind;
  } cases[] = {
      {"on a point", 16, 4096, 1024, 0.024435999999999999, 4.8872, kPoint},
      {"between points", 40, 4096, 1024, 0.020865250000000002, 4.7468443750000011, kInterpolated},
      {"below the curve", 4, 4096, 1024, 0.021074190789473684, 4.6363219736842112, kExtrapolated},
      {"no tokens", 0, 4096, 1024, 0.020971789473684211, 4.6137936842105267, kExtrapolated},
      {"above the curve", 4096, 4096, 1024, 0.68719719884057973, 171.79929971014496, kExtrapolated},
      {"below a single point", 2, 256, 256, 0.0013315441176470588, 0.11983897058823527,
       kExtrapolated},
      {"above a single point", 100, 256, 256, 0.0023353235294117643, 0.21017911764705874,
       kExtrapolated},
      {"a raised row", 16, 8192, 8192, 0.13474201599999999, 20, kPoint},
      {"between a raised row and another", 32, 8192, 8192, 0.18982801066666666, 47.258543836813665,
       kInterpolated},
      {"two sites in reach", 64, 4608, 1536, 0.031979289168202904, 8.204316387218844,
       kExtrapolated},
      {"only one curve covers", 512, 4608, 1536, 0.10929127499999998, 45.902335499999992,
       kExtrapolated},
      {"two neighbours at one distance", 32, 1280, 5120, 0.03604475294895141, 8.1100694135140667,
       kExtrapolated},
      {"no curve covers", 5000, 4608, 1536, 1.2515919566714278, 419.48618130511886, kExtrapolated},
      {"larger on one axis", 64, 65536, 2048, 0.58916175681103322, 190.44412958264613,
       kExtrapolated}};
  for (const auto& c : cases) {
    const auto r = products.At(c.m, c.n, c.k);
    ASSERT_TRUE(r) << c.name;
    EXPECT_DOUBLE_EQ(r->latency, c.latency) << c.name;
    EXPECT_DOUBLE_EQ(r->energy, c.energy) << c.name;
    EXPECT_EQ(r->kind, c.kind) << c.name;
  }
  EXPECT_EQ(products.At(64, 65536, 65536).error(), Miss::kNoSiteInReach);
  EXPECT_EQ(products.At(8, 16, 16).error(), Miss::kNoSiteInReach);
}

TEST(Sites, TheFirstRowOfAPointStays) {
  const Products products({{4096,
                            4096,
                            {{1, 0.055951, 150},
                             {16, 0.048309, 180},
                             {128, 0.04295, 260},
                             {1024, 0.286331, 400},
                             {16, 99, 1}}}},
                          2e14, 1);
  const auto r = products.At(8, 4096, 4096);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency, 0.052384733333333336);
  EXPECT_DOUBLE_EQ(r->energy, 8.5910962666666677);
}

TEST(Sites, FileOrderDecidesBetweenSitesAtOneDistance) {
  std::vector<Curve> curves = {{1280, 4864, {{16, 0.01054, 600}, {64, 0.011032, 600}}},
                               {1280, 5376, {{16, 0.011271, 620}, {64, 0.011786, 620}}},
                               {1344, 5120, {{16, 0.010914, 640}, {64, 0.011398, 640}}},
                               {1536, 4096, {{16, 0.012763, 500}, {64, 0.013304, 500}}},
                               {1024, 6144, {{16, 0.025625, 250}, {64, 0.027001, 250}}}};
  const auto first = Products(curves, 2e14, 1).At(32, 1280, 5120);
  ASSERT_TRUE(first);
  EXPECT_DOUBLE_EQ(first->latency, 0.01090993439132767);
  EXPECT_DOUBLE_EQ(first->energy, 6.758447243963527);
  std::swap(curves[3], curves[4]);
  const auto swapped = Products(curves, 2e14, 1).At(32, 1280, 5120);
  ASSERT_TRUE(swapped);
  EXPECT_DOUBLE_EQ(swapped->latency, 0.010953135322466615);
}

TEST(Sites, AShortOwnCurveAsksItsNeighboursWhereAllowed) {
  const std::vector<SiteIndex::Site> sites = {{{8}, {{1, 1.0, 0, 0}, {2, 2.0, 0, 1}}},
                                              {{16}, {{1, 3.0, 0, 2}, {8, 24.0, 0, 3}}}};
  const auto sol = [](std::span<const double> at) { return at[0] * at[1]; };
  const SiteIndex alone(sites, {});
  const auto held = alone.Resolve(std::array{8.0}, 4, sol);
  ASSERT_TRUE(held);
  EXPECT_DOUBLE_EQ(held->latency, 4.0);  // its own utilisation of 8 kept
  const SiteIndex helped(sites, {.own_curve_fallback = true});
  const auto borrowed = helped.Resolve(std::array{8.0}, 4, sol);
  ASSERT_TRUE(borrowed);
  EXPECT_DOUBLE_EQ(borrowed->latency, 8.0 * 4 / (16.0 * 4 / 12.0));
  EXPECT_FLOAT_EQ(borrowed->octaves, 1.0F);
}

// The rule for unknown sites written down plainly: filter, gate, waiver, sort, blend.
std::optional<double> Plainly(const std::vector<SiteIndex::Site>& sites, std::array<double, 2> at,
                              double q) {
  const auto log = [](double v) { return std::log2(std::max(v, 1e-12)); };
  const auto sol = [](double n, double k, double m) { return (n + 1) * (k + 2) * (m + 0.5); };
  const auto on_curve = [&](const SiteIndex::Site& site) -> std::optional<double> {
    const auto& c = site.curve;
    for (const auto& p : c) {
      if (p.q == q) return p.latency;
    }
    if (c.size() < 2 || q < c.front().q || q > c.back().q) {
      const std::size_t n = std::min<std::size_t>(3, c.size());
      const std::size_t begin = q < c.front().q ? 0 : c.size() - n;
      std::vector<double> utils;
      for (std::size_t i = begin; i < begin + n; ++i) {
        if (c[i].latency > 0) {
          utils.push_back(sol(site.coords[0], site.coords[1], c[i].q) / c[i].latency);
        }
      }
      if (utils.empty()) return std::nullopt;
      std::sort(utils.begin(), utils.end());
      const std::size_t half = utils.size() / 2;
      const double median =
          utils.size() % 2 == 1 ? utils[half] : (utils[half - 1] + utils[half]) / 2;
      return sol(site.coords[0], site.coords[1], q) / median;
    }
    std::size_t i = 1;
    while (c[i].q < q) ++i;
    const double w = (q - c[i - 1].q) / (c[i].q - c[i - 1].q);
    return c[i - 1].latency + (c[i].latency - c[i - 1].latency) * w;
  };
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].curve.front().q <= q && q <= sites[i].curve.back().q) candidates.push_back(i);
  }
  if (candidates.empty()) {
    for (std::size_t i = 0; i < sites.size(); ++i) candidates.push_back(i);
  }
  const auto distance = [&](std::size_t i) {
    const double dn = log(sites[i].coords[0]) - log(at[0]);
    const double dk = log(sites[i].coords[1]) - log(at[1]);
    return std::sqrt(dn * dn + dk * dk);
  };
  std::vector<std::size_t> kept;
  for (const std::size_t i : candidates) {
    if (distance(i) <= 2.0) kept.push_back(i);
  }
  if (kept.empty()) {
    std::array<double, 2> low = {1e300, 1e300};
    std::array<double, 2> high = {-1e300, -1e300};
    for (const std::size_t i : candidates) {
      for (std::size_t a = 0; a < 2; ++a) {
        low[a] = std::min(low[a], sites[i].coords[a]);
        high[a] = std::max(high[a], sites[i].coords[a]);
      }
    }
    if (at[0] < low[0] || at[1] < low[1]) return std::nullopt;
    if ((at[0] > high[0]) == (at[1] > high[1])) return std::nullopt;
    const std::size_t other = at[0] > high[0] ? 1 : 0;
    for (const std::size_t i : candidates) {
      if (std::abs(log(sites[i].coords[other]) - log(at[other])) <= 2.0) kept.push_back(i);
    }
    if (kept.empty()) return std::nullopt;
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  if (kept.size() > 4) kept.resize(4);
  double util = 0;
  double total = 0;
  for (const std::size_t i : kept) {
    const auto latency = on_curve(sites[i]);
    if (!latency || !(*latency > 0)) continue;
    const double d = distance(i);
    const double w = 1 / (d * d + 1e-12);
    util += w * (sol(sites[i].coords[0], sites[i].coords[1], q) / *latency);
    total += w;
  }
  if (!(total > 0)) return std::nullopt;
  return sol(at[0], at[1], q) / (util / total);
}

TEST(Sites, UnknownSitesAnswerAsThePlainRuleDoes) {
  std::mt19937 random(99);
  const auto sol = [](std::span<const double> c) { return (c[0] + 1) * (c[1] + 2) * (c[2] + 0.5); };
  std::uniform_int_distribution<int> exponent(0, 12);
  std::uniform_real_distribution<double> latency(-0.2, 4);
  int answered = 0;
  int missed = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<SiteIndex::Site> sites;
    const int count = std::uniform_int_distribution<int>(1, 40)(random);
    while (static_cast<int>(sites.size()) < count) {
      const std::vector<double> coords = {std::exp2(exponent(random)), std::exp2(exponent(random))};
      if (std::any_of(sites.begin(), sites.end(),
                      [&](const auto& site) { return site.coords == coords; })) {
        continue;
      }
      SiteIndex::Site site{coords, {}};
      double q = std::exp2(exponent(random) / 2);
      const int points = std::uniform_int_distribution<int>(1, 5)(random);
      for (int p = 0; p < points; ++p, q *= 2) {
        site.curve.push_back({q, latency(random), 0, 0});
      }
      sites.push_back(std::move(site));
    }
    const SiteIndex index(sites, {});
    for (int i = 0; i < 25; ++i) {
      // Never on a site: sites are powers of two.
      const std::array<double, 2> at = {std::exp2(exponent(random)) * 1.5,
                                        std::exp2(exponent(random))};
      const double q = std::exp2(exponent(random) / 2) * (i % 3 == 0 ? 1.25 : 1.0);
      const auto expected = Plainly(sites, at, q);
      const auto r = index.Resolve(at, q, sol);
      ASSERT_EQ(r.has_value(), expected.has_value());
      if (r) {
        EXPECT_DOUBLE_EQ(r->latency, *expected);
        ++answered;
      } else {
        ++missed;
      }
    }
  }
  EXPECT_GT(answered, 3000);
  EXPECT_GT(missed, 100);
}

}  // namespace
}  // namespace infercast
