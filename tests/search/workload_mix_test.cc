#include "search/workload_mix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "search/run_fixture.h"
#include "search/standard_runs.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;

TEST(WorkloadsTest, ReadsPresetsWithShares) {
  const auto kinds = ParseWorkloads("chat,rag=2.5");
  ASSERT_TRUE(kinds) << kinds.error().message;
  ASSERT_EQ(kinds->size(), 2u);
  EXPECT_EQ((*kinds)[0].name, "chat");
  EXPECT_EQ((*kinds)[0].share, 1);
  EXPECT_EQ((*kinds)[1].workload.isl, 6000);
  EXPECT_EQ((*kinds)[1].share, 2.5);
}

TEST(WorkloadsTest, HelpsWithUnknownNamesAndBadShares) {
  const auto unknown = ParseWorkloads("chatt");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnknownName);
  EXPECT_THAT(unknown.error().message, HasSubstr("chat"));
  for (const char* text : {"chat=0", "chat=-1", "chat=x", "chat=", "chat=nan"}) {
    EXPECT_EQ(ParseWorkloads(text).error().kind, ErrorKind::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseWorkloads(""));
  EXPECT_FALSE(ParseWorkloads("chat,"));
}

TEST(WorkloadsTest, ReadsOwnMixes) {
  const auto kinds = ParseWorkloadYaml(
      "chat: {share: 3}\ncontracts: {isl: 24000, osl: 800, prefix_hit: 0.25, ttft: 5000}\n", "mix");
  ASSERT_TRUE(kinds) << kinds.error().message;
  EXPECT_EQ((*kinds)[0].share, 3);
  EXPECT_EQ((*kinds)[0].workload.osl, 400);
  EXPECT_EQ((*kinds)[1].workload.prefix, 6000);
  EXPECT_EQ((*kinds)[1].ttft, 5000);
  EXPECT_FALSE((*kinds)[1].tpot);
}

TEST(WorkloadsTest, RefusesBrokenMixes) {
  const auto error = [](const char* text) { return ParseWorkloadYaml(text, "mix").error(); };
  EXPECT_EQ(error("[1]").kind, ErrorKind::kYaml);
  EXPECT_EQ(error("a: [").kind, ErrorKind::kYaml);
  EXPECT_EQ(error("a: {isl: many, osl: 1}").kind, ErrorKind::kYaml);
  for (const char* field : {"isl", "osl", "prefix", "prefix_hit", "share", "ttft", "tpot"}) {
    const std::string text =
        fmt::format("rag: {{share: 2}}\na: {{isl: 100, osl: 1, {}: x}}", field);
    EXPECT_EQ(error(text.c_str()).kind, ErrorKind::kYaml) << field;
    EXPECT_THAT(error(text.c_str()).message, HasSubstr(fmt::format("mix: a: {}: expected", field)));
    EXPECT_THAT(error(text.c_str()).message, HasSubstr("'x'"));
  }
  EXPECT_THAT(error("a: {osl: [1], isl: 100}").message, HasSubstr("mix: a: osl: expected a whole"));
  EXPECT_THAT(error("a: {isl: 100}").message, HasSubstr("no osl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, oslo: 3}").message, HasSubstr("osl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, prefix: 100}").message, HasSubstr("shorter than isl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, prefix_hit: 1.5}").message, HasSubstr("prefix_hit"));
  EXPECT_THAT(error("mine: {share: 2}").message, HasSubstr("unknown workload 'mine'"));
  EXPECT_EQ(ReadWorkloads("/nonexistent/mix.yaml").error().kind, ErrorKind::kIo);
}

class Mixes : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
  }
  static RunRequest Request(ScoredBy score, double ttft, double tpot, std::size_t top_n) {
    RunRequest request;
    request.model = "Qwen/Qwen3-30B-A3B";
    request.system = "h200_sxm";
    request.backend = Backend::kVllm;
    request.ttft = ttft;
    request.tpot = tpot;
    request.top_n = top_n;
    request.score = score;
    return request;
  }
  Result<MixResult> Search(const char* workloads, const RunRequest& request) const {
    Workbench bench(data_->systems, data_->checkpoints);
    return SearchMix(*ParseWorkloads(workloads), request, 8, bench);
  }
  Result<MixResult> Search(ScoredBy score, double ttft = 3000) const {
    return Search("chat=3,rag=1", Request(score, ttft, 40, 3));
  }
  std::unique_ptr<testing::MeasuredSystems> data_;
};

TEST_F(Mixes, AreRankedByRunsThatMeetEveryTarget) {
  const auto mix = Search(ScoredBy::kClosedLoop);
  ASSERT_TRUE(mix) << mix.error().message;
  EXPECT_EQ(mix->scored_by, ScoredBy::kClosedLoop);
  ASSERT_FALSE(mix->best.empty());
  double last = INFINITY;
  for (const MixedDeployment& mixed : mix->best) {
    ASSERT_EQ(mixed.rows.size(), 2u);
    double time = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      ASSERT_TRUE(mixed.rows[k].score);
      EXPECT_LE(mixed.rows[k].score->ttft, 3000);
      EXPECT_LE(mixed.rows[k].score->tpot, 40);
      time += mix->kinds[k].share / mixed.rows[k].score->seq_s;
    }
    EXPECT_NEAR(mixed.seq_s, 1 / time, 1e-12 * mixed.seq_s);
    EXPECT_LE(mixed.seq_s_gpu_cluster, last);
    last = mixed.seq_s_gpu_cluster;
    // Both kinds on the same deployment.
    const AggregatedRow* a = mixed.rows[0].aggregated();
    if (a != nullptr) {
      EXPECT_EQ(a->bs, mixed.rows[1].aggregated()->bs);
    }
  }
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto again = Search(ScoredBy::kClosedLoop);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->best.size(), mix->best.size());
  for (std::size_t i = 0; i < mix->best.size(); ++i) {
    EXPECT_EQ(again->best[i].seq_s_gpu_cluster, mix->best[i].seq_s_gpu_cluster);
  }
}

TEST_F(Mixes, KeepTheFormulaWhereItIsAskedFor) {
  const auto mix = Search(ScoredBy::kFormula);
  ASSERT_TRUE(mix) << mix.error().message;
  EXPECT_EQ(mix->scored_by, ScoredBy::kFormula);
  ASSERT_EQ(mix->best.size(), 3u);
  for (const MixedDeployment& mixed : mix->best) {
    ASSERT_EQ(mixed.rows.size(), 2u);
    for (const TaskRow& row : mixed.rows) EXPECT_FALSE(row.score);
  }
}

TEST_F(Mixes, NoRunMeetsATargetThatOnlyTheFormulaDoes) {
  // The formula's first token of a steady state, too soon for a burst of long prompts.
  ASSERT_TRUE(Search(ScoredBy::kFormula, 90));
  const auto runs = Search(ScoredBy::kClosedLoop, 90);
  ASSERT_FALSE(runs);
  EXPECT_EQ(runs.error().kind, ErrorKind::kNoFeasibleConfig);
  EXPECT_THAT(runs.error().message, HasSubstr("--score formula"));
  EXPECT_THAT(runs.error().message, HasSubstr("of all"));
}

// Runs of the layouts that the formula ranks first miss the targets here, those of others do not.
TEST_F(Mixes, AreFoundHoweverFewAreShown) {
  const auto five = Search("chat,rag", Request(ScoredBy::kClosedLoop, 200, 15, 5));
  ASSERT_TRUE(five) << five.error().message;
  ASSERT_EQ(five->best.size(), 5u);
  const auto one = Search("chat,rag", Request(ScoredBy::kClosedLoop, 200, 15, 1));
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_EQ(one->best.size(), 1u);
  EXPECT_EQ(one->best[0].seq_s_gpu_cluster, five->best[0].seq_s_gpu_cluster);
  EXPECT_EQ(PickRowOf(one->best[0].rows[0]).group, PickRowOf(five->best[0].rows[0]).group);
}

// With layouts that have several rows for one batch, which differ in the prefill tokens of a step.
TEST_F(Mixes, OfOneWorkloadAreItsSearch) {
  RunRequest request = Request(ScoredBy::kFormula, 300, 30, 10);
  request.model = "Qwen/Qwen3-32B";
  request.modes = {ServingMode::kAggregated};
  const auto mix = Search("chat", request);
  ASSERT_TRUE(mix) << mix.error().message;

  request.strict = true;
  request.workload = ParseWorkloads("chat")->front().workload;
  Workbench bench(data_->systems, data_->checkpoints);
  const auto sweep = RunDefault(request, 8, bench);
  ASSERT_TRUE(sweep) << sweep.error().message;
  ASSERT_EQ(sweep->results.size(), 1u);
  const std::vector<PickedRow>& best = sweep->results[0].best;
  ASSERT_GE(best.size(), 3u);
  ASSERT_EQ(mix->best.size(), best.size());
  for (std::size_t i = 0; i < best.size(); ++i) {
    const AggregatedRow& own = *best[i].row.aggregated();
    const AggregatedRow& mixed = *mix->best[i].rows[0].aggregated();
    EXPECT_EQ(mixed.worker->parallel, own.worker->parallel) << i;
    EXPECT_EQ(mixed.bs, own.bs) << i;
    EXPECT_EQ(mixed.ctx_tokens, own.ctx_tokens) << i;
    EXPECT_EQ(PickRowOf(mix->best[i].rows[0]).seq_s, PickRowOf(best[i].row).seq_s) << i;
  }
}

}  // namespace
}  // namespace infercast
