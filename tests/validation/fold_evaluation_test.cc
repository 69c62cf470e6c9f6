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
      c.step.context_scale = std::array{0.9125, 1.081, 1.1, 1.05}[f];
      c.first_token_steps = std::array{9.091, 6.882, 7.149, 6.585}[f];
      break;
    case Backend::kSglang:
      c.step.context_scale = std::array{1.398, 1.173, 1.499, 1.433}[f];
      c.first_token_ms = std::array{156.1, 167.1, 179.7, 164.9}[f];
      c.front_end_ms_per_1000 = std::array{2.032, 4.674, 0.2294, 0.0}[f];
      c.step.host_ms_per_layer = std::array{0.03334, 0.02855, 0.03872, 0.03016}[f];
      break;
    case Backend::kVllm:
      c.step.context_scale = std::array{1.343, 1.265, 1.259, 1.318}[f];
      c.first_token_ms = std::array{48.63, 51.18, 29.64, 36.53}[f];
      c.step.host_ms_per_layer = std::array{0.01805, 0.01986, 0.01462, 0.0184}[f];
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
  EXPECT_NEAR(ttft.mean, 31.7, 0.1);
  EXPECT_NEAR(ttft.median, 23.9, 0.1);
  EXPECT_NEAR(tpot.mean, 15.1, 0.1);
  EXPECT_NEAR(tpot.median, 10.6, 0.1);
  EXPECT_NEAR(within.ttft_percent(), 81.2, 0.3);
  EXPECT_NEAR(within.tpot_percent(), 78.3, 0.3);
}

}  // namespace
}  // namespace infercast
