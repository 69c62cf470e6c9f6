// Scores over the public points (where they are on this machine), and over a few rows.
#include "validation/validation.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <nlohmann/json.hpp>

#include "support/data_files.h"
#include "tables/measured_data.h"
#include "validation/calibration_report.h"
#include "validation/points.h"
#include "validation/report.h"

namespace infercast {
namespace {

CheckpointSearch Checkpoints(const std::filesystem::path& root) {
  CheckpointSearch checkpoints;
  checkpoints.config_dirs.push_back(root.parent_path() / "model_configs");
  return checkpoints;
}

std::vector<ValidatedRow> Validate(const std::filesystem::path& root, const std::string& csv,
                                   const CalibrationProfile* profile = nullptr) {
  auto file = ParseMeasuredCsv(csv);
  EXPECT_TRUE(file);
  ValidateOptions options;
  options.calibration = profile;
  return ValidatePoints(std::move(file->points), SystemsCatalog({root}), Checkpoints(root),
                        options);
}

constexpr const char* kRows =
    "model,system,backend,version,precision,isl,osl,concurrency,tp,ttft_ms,tpot_ms,mode\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,0.24.0,bf16,1024,256,8,2,100,12,agg\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,0.24.0,bf16,1024,256,16,2,150,13,agg\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,9.9,bf16,1024,256,32,2,200,14,agg\n"
    "nobody/Nothing,h200_sxm,vllm,0.24.0,bf16,1024,256,8,2,300,15,agg\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,0.24.0,bf16,,256,8,2,400,16,agg\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,0.24.0,bf16,1024,256,8,,500,17,disagg\n"
    "Qwen/Qwen3-32B,h200_sxm,vllm,0.24.0,bf16,1024,256,4,2,,,agg\n";

TEST(Validation, RowsAreAnsweredOrSayWhyNot) {
  IC_REQUIRE_DATA(root);
  const auto rows = Validate(root, kRows);
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_TRUE(rows[0].answered());
  EXPECT_GT(rows[0].forecast->ttft.mean, 0);
  ASSERT_TRUE(rows[2].answered());
  EXPECT_NE(rows[2].notes.at(0).find("vllm 9.9 was not measured"), std::string::npos);
  ASSERT_TRUE(rows[3].error);
  EXPECT_EQ(rows[3].error->kind, ErrorKind::kUnknownName);
  EXPECT_EQ(*rows[4].measured.unanswerable, "the row lacks isl");
  EXPECT_TRUE(rows[5].measured.unanswerable);
  EXPECT_TRUE(rows[6].answered());  // a forecast needs no measurement
  const GroupScore score = Score(rows, {});
  EXPECT_EQ(score.rows, 7);
  EXPECT_EQ(score.answerable, 5);
  EXPECT_EQ(score.answered, 4);
  EXPECT_EQ(score.ttft.rows, 3);
  EXPECT_EQ(score.answered_percent(), 80);
}

TEST(Validation, ErrorsAreThoseOfTheFigures) {
  IC_REQUIRE_DATA(root);
  const auto rows = Validate(root, kRows);
  std::vector<double> apes;
  for (const std::size_t i : {0U, 1U, 2U}) {
    apes.push_back(100 * std::abs(rows[i].ttft_ms / *rows[i].measured.point.ttft_ms - 1));
  }
  const GroupScore score = Score(rows, {});
  EXPECT_NEAR(score.ttft.mape, (apes[0] + apes[1] + apes[2]) / 3, 1e-9);
  std::ranges::sort(apes);
  EXPECT_NEAR(score.ttft.median_ape, apes[1], 1e-9);
  const auto by = ScoreBy(rows, {}, ScoreDimension::kConcurrency);
  ASSERT_GE(by.size(), 3U);
  EXPECT_EQ(by[0].name, "1-4");
  EXPECT_EQ(by[1].name, "5-16");
}

TEST(Validation, JsonHoldsTheHeadlineAndEveryRow) {
  IC_REQUIRE_DATA(root);
  const auto rows = Validate(root, kRows);
  const auto json = nlohmann::json::parse(ValidationJson(rows, "points.csv"));
  const auto& overall = json.at("overall");
  EXPECT_EQ(overall.at("rows"), 7);
  EXPECT_EQ(overall.at("answerable_rows"), 5);
  EXPECT_EQ(overall.at("answered_percent"), 80);
  for (const char* key : {"ttft_mape_percent", "ttft_median_ape_percent", "tpot_mape_percent",
                          "tpot_median_ape_percent"}) {
    EXPECT_TRUE(overall.at(key).is_number()) << key;
  }
  EXPECT_EQ(json.at("points").size(), 7U);
  EXPECT_EQ(json.at("points")[4].at("status"), "unanswerable");
  EXPECT_EQ(json.at("by").at("backend").at("vllm").at("answerable_rows"), 5);
  // Lines of the table, of the CSV, dots of the page.
  EXPECT_NE(ValidationText(rows).find("by concurrency"), std::string::npos);
  const std::string csv = ValidationCsv(rows);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 8);
  const std::string page = ValidationHtml(rows, "<points>.csv");
  EXPECT_NE(page.find("&lt;points&gt;.csv"), std::string::npos);
  std::size_t dots = 0;
  for (std::size_t at = 0; (at = page.find("<circle", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 6U);
}

TEST(Validation, CalibratedFiguresStandBesideTheRawOnes) {
  IC_REQUIRE_DATA(root);
  const auto raw = Validate(root, kRows);
  const CalibrationRun run = CalibrateRows(raw);
  EXPECT_EQ(run.profile.factors.size(), 2U);
  const auto rows = Validate(root, kRows, &run.profile);
  ASSERT_TRUE(rows[0].calibrated_ttft_ms);
  EXPECT_EQ(rows[0].ttft_ms, raw[0].ttft_ms);
  EXPECT_NEAR(*rows[0].calibrated_ttft_ms, raw[0].ttft_ms * run.profile.factors[0].ttft, 1e-9);
  EXPECT_LE(Score(rows, {}).tpot.mape, Score(raw, {}).tpot.mape);
}

// The public points: coverage, accuracy, determinism. The bounds are the acceptance of the
// forecast.
TEST(PublicPoints, AreAnsweredAndWithinTheAcceptedErrors) {
  IC_REQUIRE_DATA(root);
  const auto folder = testing::SiliconFolder();
  if (!folder) GTEST_SKIP() << "no public points on this machine";
  const std::string csv = testing::ReadText(*folder / "train.csv");
  const auto rows = Validate(root, csv);
  EXPECT_EQ(rows.size(), 3304U);
  ScoreScope aggregated;
  aggregated.disaggregated = false;
  const GroupScore score = Score(rows, aggregated);
  EXPECT_GE(score.answered_percent(), 98);
  EXPECT_LE(score.ttft.mape, 40);
  EXPECT_LE(score.ttft.median_ape, 26);
  EXPECT_LE(score.tpot.mape, 21);
  EXPECT_LE(score.tpot.median_ape, 13);
  EXPECT_NEAR(score.ttft.within_interval, 82, 7);
  EXPECT_NEAR(score.tpot.within_interval, 82, 7);
  std::int64_t speculating = 0;
  for (const ValidatedRow& row : rows) {
    if (row.measured.hidden_speculation && !row.measured.copy && !row.measured.disaggregated) {
      ++speculating;
    }
  }
  EXPECT_EQ(speculating, 90);
  // Each point from the others of its family.
  const CalibrationRun run = CalibrateRows(rows);
  EXPECT_LE(run.ttft_left_one_out.median_ape, 21);
  EXPECT_LE(run.tpot_left_one_out.median_ape, 8);
  // One thread says the same.
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto again = Validate(root, csv);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].ttft_ms, again[i].ttft_ms) << i;
    ASSERT_EQ(rows[i].tpot_ms, again[i].tpot_ms) << i;
  }
}

}  // namespace
}  // namespace infercast
