// Whole default runs and load searches against recorded figures: numbers of rows, best values, best
// layouts.
#include <gtest/gtest.h>

#include <string>

#include "search/run_fixture.h"
#include "search/standard_runs.h"

namespace infercast {
namespace {

struct Expected {
  std::size_t agg_rows, disagg_rows, agg_front, disagg_front;
  double agg_value, disagg_value;
  std::string chosen;
};

RunRequest Request(const char* model, Backend backend, std::int64_t isl, std::int64_t osl,
                   double ttft, double tpot) {
  RunRequest r;
  r.model = model;
  r.system = "h200_sxm";
  r.backend = backend;
  r.workload.isl = isl;
  r.workload.osl = osl;
  r.ttft = ttft;
  r.tpot = tpot;
  r.behaviour = Behaviour::kReference;
  return r;
}

void CheckRun(const RunRequest& request, std::int64_t gpus, const Expected& expected) {
  auto data = testing::MeasuredSystems::Find();
  if (!data) GTEST_SKIP() << "no measured data package";
  Workbench bench(data->systems, data->checkpoints);
  const auto result = RunDefault(request, gpus, bench);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->outcomes.size(), 2U);
  // Rows equal to the last one that a target keeps: which of them stays is the reference's sort's
  // own choice, and different targets may choose differently.
  const TaskTable& agg = result->outcomes[0].table;
  EXPECT_LE(agg.rows.size(), expected.agg_rows);
  EXPECT_GE(agg.rows.size() + agg.cut_ties.size(), expected.agg_rows);
  EXPECT_GE(agg.rows.size() + 2, expected.agg_rows);
  EXPECT_EQ(result->outcomes[1].table.rows.size(), expected.disagg_rows);
  EXPECT_EQ(result->outcomes[0].pick.front.size(), expected.agg_front);
  EXPECT_EQ(result->outcomes[1].pick.front.size(), expected.disagg_front);
  EXPECT_NEAR(result->outcomes[0].pick.best_value, expected.agg_value, 1.1e-3);
  EXPECT_NEAR(result->outcomes[1].pick.best_value, expected.disagg_value, 1.1e-3);
  EXPECT_EQ(result->chosen, expected.chosen);
}

TEST(RecordedRuns, StrictTargetsOfVllm) {
  RunRequest r = Request("Qwen/Qwen3-32B", Backend::kVllm, 3000, 300, 800, 25);
  r.strict = true;
  r.top_n = 3;
  CheckRun(r, 8, {253, 38, 41, 5, 476.111, 506.08, "disagg"});
}

TEST(RecordedRuns, Images) {
  RunRequest r = Request("Qwen/Qwen3-VL-8B-Instruct", Backend::kVllm, 1500, 200, 2000, 30);
  r.workload.num_images = 2;
  r.workload.image_height = 1000;
  r.workload.image_width = 750;
  CheckRun(r, 4, {186, 40, 46, 15, 1725.722, 1554.248, "agg"});
}

TEST(RecordedRuns, RequestLatency) {
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kTrtllm, 4000, 500, 2000, 30);
  r.request_latency = 12000;
  CheckRun(r, 8, {125, 21, 29, 7, 737.64, 953.719, "disagg"});
}

TEST(RecordedRuns, AnotherDecodeSystemAndPrefix) {
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kSglang, 3000, 300, 2000, 30);
  r.decode_system = "h100_sxm";
  r.workload.prefix = 1000;
  CheckRun(r, 8, {470, 37, 40, 9, 1101.852, 928.395, "agg"});
}

TEST(RecordedRuns, Experts) {
  CheckRun(Request("Qwen/Qwen3-235B-A22B", Backend::kVllm, 4000, 500, 2000, 40), 16,
           {741, 83, 58, 28, 224.679, 311.851, "disagg"});
}

TEST(RecordedRuns, LargeExpertParallelism) {
  CheckRun(Request("deepseek-ai/DeepSeek-V3", Backend::kSglang, 2000, 500, 3000, 50), 16,
           {3551, 139, 70, 20, 629.111, 694.969, "disagg"});
}

TEST(RecordedRuns, DraftTokens) {
  RunRequest r = Request("deepseek-ai/DeepSeek-V3", Backend::kTrtllm, 4000, 500, 3000, 50);
  r.nextn = 1;
  r.nextn_accepted = 0.85;
  CheckRun(r, 16, {607, 142, 42, 24, 384.234, 239.316, "agg"});
}

TEST(RecordedRuns, AllBackends) {
  auto data = testing::MeasuredSystems::Find();
  if (!data) GTEST_SKIP() << "no measured data package";
  Workbench bench(data->systems, data->checkpoints);
  RunRequest r = Request("Qwen/Qwen3-8B", Backend::kTrtllm, 1000, 100, 2000, 30);
  r.backend.reset();
  r.top_n = 4;
  const auto result = RunDefault(r, 4, bench);
  ASSERT_TRUE(result) << result.error().message;
  const std::size_t rows[] = {437, 31, 654, 32, 446, 33};
  ASSERT_EQ(result->outcomes.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(result->outcomes[i].table.rows.size(), rows[i]) << result->outcomes[i].name;
  }
  const ExperimentResult* agg = result->Find("agg");
  const ExperimentResult* disagg = result->Find("disagg");
  ASSERT_TRUE(agg != nullptr && disagg != nullptr);
  EXPECT_EQ(agg->best.size(), 4U);
  EXPECT_EQ(agg->front.size(), 57U);
  EXPECT_EQ(disagg->front.size(), 16U);
  EXPECT_NEAR(agg->best_value, 3427.672, 1.1e-3);
  EXPECT_EQ(agg->best[0].backend, Backend::kTrtllm);
  EXPECT_NEAR(disagg->best_value, 2821.837, 1.1e-3);
  EXPECT_EQ(disagg->best[0].backend, Backend::kVllm);
  EXPECT_EQ(result->chosen, "agg");
}

struct Sized {
  std::int64_t replicas, gpus;
  double tokens_s_gpu;
};

void CheckLoad(const ExperimentsResult& result, const char* name,
               const std::vector<Sized>& expected) {
  const ExperimentResult* found = result.Find(name);
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->best.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found->best[i].pick.replicas_needed, expected[i].replicas) << i;
    EXPECT_EQ(found->best[i].pick.total_gpus_needed, expected[i].gpus) << i;
    EXPECT_NEAR(PickRowOf(found->best[i].row).tokens_s_gpu, expected[i].tokens_s_gpu, 1.1e-3) << i;
  }
}

TEST(RecordedRuns, FewestGpusForARate) {
  auto data = testing::MeasuredSystems::Find();
  if (!data) GTEST_SKIP() << "no measured data package";
  Workbench bench(data->systems, data->checkpoints);
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kTrtllm, 4000, 500, 2000, 30);
  r.database_mode = DatabaseMode::kHybrid;
  const auto result = RunRecommend(r, {.request_rate = 12}, false, bench);
  ASSERT_TRUE(result) << result.error().message;
  CheckLoad(*result, "agg", {{7, 7, 872.058}, {4, 8, 927.294}, {2, 8, 781.089}, {2, 16, 579.665}});
  CheckLoad(*result, "disagg", {{1, 8, 953.719}, {2, 8, 762.975}, {1, 8, 762.975}});
  EXPECT_EQ(result->chosen, "agg");
  EXPECT_DOUBLE_EQ(result->Find("agg")->best_value, 0.14285714285714285);
}

}  // namespace
}  // namespace infercast
