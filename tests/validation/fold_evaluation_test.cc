// Scores where nothing was fitted, over the public points (where they are on this machine), and the
// arithmetic of coverage over made-up errors.
#include "validation/fold_evaluation.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "support/data_files.h"
#include "tables/measured_data.h"
#include "validation/points.h"

namespace infercast {
namespace {

// Errors of a log-normal kind; fold 3 may be off by a factor.
std::vector<FoldSample> MadeUp(double factor, bool pools = false) {
  std::mt19937 random(11);
  std::normal_distribution<double> error(0, 0.3);
  std::vector<FoldSample> samples;
  for (int i = 0; i < 2000; ++i) {
    FoldSample s;
    s.fold = i % Folds::kCount;
    s.kind.disaggregated = pools;
    s.ttft = 100;
    s.measured_ttft = 100 * std::exp(error(random)) * (s.fold == 3 ? factor : 1);
    s.tpot = 10;
    s.measured_tpot = i % 10 == 0 ? 0 : 10 * std::exp(error(random));  // some were not measured
    samples.push_back(s);
  }
  return samples;
}

TEST(FoldCoverage, FoldsThatAreAlikeAreCoveredAsTheBoundsSay) {
  const IntervalCoverage c = CoverageOutOfFold(MadeUp(1));
  EXPECT_EQ(c.ttft_rows, 2000);
  EXPECT_EQ(c.tpot_rows, 1800);
  EXPECT_NEAR(c.ttft_percent(), 84, 2);
  EXPECT_NEAR(c.tpot_percent(), 84, 2);
  EXPECT_NEAR(CoverageOutOfFold(MadeUp(1, true)).ttft_percent(), 92, 2);
}

TEST(FoldCoverage, AFoldOfItsOwnIsNotCoveredByTheOthers) {
  const IntervalCoverage alike = CoverageOutOfFold(MadeUp(1)), off = CoverageOutOfFold(MadeUp(3));
  EXPECT_LT(off.ttft_percent(), alike.ttft_percent() - 5);
  EXPECT_EQ(off.tpot_percent(), alike.tpot_percent());
}

TEST(FoldCoverage, FarPointsGetWiderBounds) {
  std::vector<FoldSample> samples = MadeUp(1);
  const std::int64_t near = CoverageOutOfFold(samples).ttft_within;
  // Errors that are larger where wider bounds are given: covered as before.
  for (FoldSample& s : samples) {
    if (s.fold != 0) continue;
    s.kind.octaves = 2;
    const double wide = WideningOf(s.kind);
    EXPECT_GT(wide, 1);
    s.measured_ttft = s.ttft * std::pow(s.measured_ttft / s.ttft, wide);
  }
  EXPECT_NEAR(static_cast<double>(CoverageOutOfFold(samples).ttft_within),
              static_cast<double>(near), 2);
}

TEST(Folds, GroupsAreNeverSplit) {
  const Folds folds = Folds::Parse(
      "mode,backend,system,model_path,precision,fold,rows\n"
      "agg,vllm,h200_sxm,Qwen/Qwen3-32B,bf16,2,40\n"
      "agg,vllm,h200_sxm,broken,bf16,7,40\n"
      "disagg,vllm\n");
  RepairedPoint r;
  r.point.backend = "vllm";
  r.point.system = "h200_sxm";
  r.point.model = "Qwen/Qwen3-32B";
  r.point.precision = "bf16";
  for (const std::size_t index : {0U, 1U, 7U}) EXPECT_EQ(folds.Of(r, index), 2);
  r.disaggregated = true;  // another group, not listed
  EXPECT_EQ(folds.Of(r, 7), 3);
  EXPECT_FALSE(folds.empty());
  EXPECT_TRUE(Folds::Parse("").empty());
}

// What tools/fit_corrections finds without each of the folds.
ServingCorrections FittedWithout(Backend backend, bool disaggregated, int fold) {
  const auto f = static_cast<std::size_t>(fold);
  ServingCorrections c;
  if (disaggregated) return DefaultCorrections(backend, true);  // not judged here
  switch (backend) {
    case Backend::kTrtllm:
      c.step.context_scale = std::array{0.9875, 1.1, 1.062, 1.1}[f];
      c.first_token_steps = std::array{9.957, 9.069, 10.11, 9.129}[f];
      break;
    case Backend::kSglang:
      c.step.context_scale = std::array{1.446, 1.198, 1.454, 1.426}[f];
      c.first_token_ms = std::array{140.4, 158.4, 167.5, 144.3}[f];
      c.front_end_ms_per_1000 = std::array{3.186, 4.618, 2.259, 3.041}[f];
      c.step.host_ms_per_layer = std::array{0.03642, 0.02853, 0.04334, 0.03588}[f];
      break;
    case Backend::kVllm:
      c.step.context_scale = std::array{1.307, 1.248, 1.263, 1.267}[f];
      c.first_token_ms = std::array{48.11, 53.32, 26.15, 23.34}[f];
      c.step.host_ms_per_layer = std::array{0.01033, 0.01461, 0.01212, 0.01303}[f];
      break;
  }
  return c;
}

struct Errors {
  std::vector<double> ttft, tpot;
};

TEST(PublicPoints, OutOfFoldErrorsAndIntervalsAreThoseDocumented) {
  IC_REQUIRE_DATA(root);
  const auto folder = testing::SiliconFolder();
  if (!folder) GTEST_SKIP() << "no public points on this machine";
  CheckpointSearch checkpoints;
  checkpoints.config_dirs.push_back(root.parent_path() / "model_configs");
  const SystemsCatalog systems({root});
  auto file = ParseMeasuredCsv(testing::ReadText(*folder / "train.csv"));
  ASSERT_TRUE(file);
  const Folds folds = Folds::Parse(testing::ReadText(*folder / "folds.csv"));
  ASSERT_FALSE(folds.empty());
  const std::vector<RepairedPoint> points =
      RepairPoints(std::move(file->points), MoeTest(checkpoints));
  std::vector<PreparedDeployment> deployments = PreparePoints(points, systems, checkpoints, {});
  const std::vector<FoldSample> all = ForecastOutOfFold(points, deployments, folds, FittedWithout);
  Errors errors;
  std::int64_t answered = 0, rows = 0;
  IntervalCoverage within;
  for (const Backend backend : {Backend::kTrtllm, Backend::kSglang, Backend::kVllm}) {
    std::vector<FoldSample> samples;
    for (const FoldSample& s : all) {
      if (s.kind.backend == backend && !s.kind.disaggregated) samples.push_back(s);
    }
    for (const FoldSample& s : samples) {
      ++rows;
      if (!(s.ttft > 0)) continue;
      ++answered;
      if (s.measured_ttft > 0) errors.ttft.push_back(100 * std::abs(s.ttft / s.measured_ttft - 1));
      if (s.measured_tpot > 0) errors.tpot.push_back(100 * std::abs(s.tpot / s.measured_tpot - 1));
    }
    within.Merge(CoverageOutOfFold(samples));
  }
  EXPECT_GE(100 * answered, 98 * rows);
  const Distribution ttft = Summarise(errors.ttft), tpot = Summarise(errors.tpot);
  // docs/accuracy.md, to a tenth of a percent.
  EXPECT_NEAR(ttft.mean, 33.4, 0.1);
  EXPECT_NEAR(ttft.median, 24.7, 0.1);
  EXPECT_NEAR(tpot.mean, 16.6, 0.1);
  EXPECT_NEAR(tpot.median, 10.5, 0.1);
  EXPECT_NEAR(within.ttft_percent(), 80.9, 0.3);
  EXPECT_NEAR(within.tpot_percent(), 79.2, 0.3);
}

}  // namespace
}  // namespace infercast
