// Searches of attention/FFN-disaggregated deployments: which splits are tried, how prefill workers
// are added, and a recorded search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "search/afd_prefill.h"
#include "search/afd_topologies.h"
#include "search/run_task.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

AfdSpace Moe(std::int64_t gpus) {
  return {.gpus_per_node = 8, .gpu_budget = gpus, .is_moe = true, .num_experts = 128};
}

TEST(AfdCandidates, CountAsRecorded) {
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), {})->size(), 60U);
  EXPECT_EQ(EnumerateAfdCandidates(Moe(32), {})->size(), 340U);
  // Dense models have no experts to spread.
  EXPECT_EQ(EnumerateAfdCandidates({8, 16, false, 0}, {})->size(), 20U);
}

TEST(AfdCandidates, OptimisticPipelinesNeedThreeMicroBatches) {
  const auto candidates = EnumerateAfdCandidates(Moe(16), {});
  ASSERT_TRUE(candidates);
  std::set<std::pair<AfdPipeline, std::int64_t>> seen;
  for (const AfdCandidate& c : *candidates) seen.emplace(c.pipeline, c.micro_batches);
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_FALSE(seen.contains({AfdPipeline::kOptimistic, 2}));
}

TEST(AfdCandidates, FollowTheLists) {
  AfdChoice choice;
  choice.tp_a_candidates = {4, 3, 1};  // 3 does not divide a node
  choice.microbatch_candidates = {3};
  choice.pipeline_candidates = {AfdPipeline::kSerial};
  choice.f_moe_ep_candidates = {"tp_f", "n_f_nodes", "1", "5"};  // 5 does not divide the GPUs
  const auto candidates = EnumerateAfdCandidates(Moe(24), choice);
  ASSERT_TRUE(candidates) << candidates.error().message;
  std::vector<std::string> texts;
  for (const AfdCandidate& c : *candidates) texts.push_back(c.layout.Text());
  EXPECT_THAT(texts,
              ::testing::ElementsAre("a1n-tp1+f1n-ep1", "a1n-tp1+f1n-ep8", "a1n-tp4+f1n-ep1",
                                     "a1n-tp4+f1n-ep8", "a1n-tp1+f2n-ep1", "a1n-tp1+f2n-ep2",
                                     "a1n-tp1+f2n-ep16", "a1n-tp4+f2n-ep1", "a1n-tp4+f2n-ep2",
                                     "a1n-tp4+f2n-ep16", "a2n-tp1+f1n-ep1", "a2n-tp1+f1n-ep8",
                                     "a2n-tp4+f1n-ep1", "a2n-tp4+f1n-ep8"));
  choice.max_af_ratio = 1;
  EXPECT_EQ(EnumerateAfdCandidates(Moe(24), choice)->size(), 10U);
}

TEST(AfdCandidates, RefuseOrCutWhatIsTooMany) {
  AfdChoice choice;
  choice.max_candidates = 59;
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice).error().kind, ErrorKind::kInvalidArgument);
  choice.candidate_overflow = CandidateOverflow::kTruncate;
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice)->size(), 59U);
  choice.max_candidates = 60;
  choice.candidate_overflow = CandidateOverflow::kError;
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice)->size(), 60U);
}

TEST(AfdCandidates, RefuseWrongSettings) {
  EXPECT_EQ(EnumerateAfdCandidates(Moe(15), {}).error().kind, ErrorKind::kInvalidArgument);
  AfdChoice choice;
  choice.f_moe_ep_candidates = {"nodes"};
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice).error().kind, ErrorKind::kInvalidArgument);
  choice.f_moe_ep_candidates = {"5"};
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice).error().kind, ErrorKind::kNoFeasibleConfig);
  choice.f_moe_ep_candidates = {};
  choice.microbatch_candidates = {0};
  EXPECT_EQ(EnumerateAfdCandidates(Moe(16), choice).error().kind, ErrorKind::kInvalidArgument);
}

TEST(PinnedAfdSplits, AreCompleteAndPossible) {
  AfdChoice choice;
  EXPECT_FALSE(*IsPinned(choice));
  choice.n_a_nodes = 1;
  EXPECT_EQ(IsPinned(choice).error().kind, ErrorKind::kInvalidArgument);
  choice.n_f_nodes = 2;
  choice.tp_a = 4;
  EXPECT_TRUE(*IsPinned(choice));
  const auto pinned = PinnedTopology(Moe(24), choice);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_EQ(pinned->layout.Text(), "a1n-tp4+f2n-ep16");
  EXPECT_EQ(pinned->schedule, (AfdSchedule{128, 3, AfdPipeline::kOptimistic}));
  const auto refused = [](const AfdSpace& space, const AfdChoice& c) {
    const auto result = PinnedTopology(space, c);
    return !result && result.error().kind == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused(Moe(16), choice));
  choice.total_batch = 301;
  EXPECT_TRUE(refused(Moe(24), choice));  // two attention workers
  choice.total_batch = 300;
  EXPECT_EQ(PinnedTopology(Moe(24), choice)->schedule.batch, 150);
  choice.a_batch = 149;
  EXPECT_TRUE(refused(Moe(24), choice));
  choice.a_batch = 150;
  EXPECT_FALSE(refused(Moe(24), choice));
  choice.tp_a = 3;
  EXPECT_TRUE(refused(Moe(24), choice));
  choice.tp_a = 4;
  AfdSpace few_experts = Moe(24);
  few_experts.num_experts = 8;
  EXPECT_TRUE(refused(few_experts, choice));
}

AfdRow DecodeRow() {
  AfdRow row;
  row.osl = 101;
  row.tpot = 10;
  row.seq_s = 10;
  row.num_total_gpus = 16;
  row.memory = 50;
  return row;
}

StaticRow PrefillRow(double ttft, double seq_s, std::int64_t gpus) {
  StaticRow row;
  row.ttft = ttft;
  row.seq_s = seq_s;
  row.num_total_gpus = gpus;
  row.bs = 1;
  row.memory.total = 60;
  return row;
}

TEST(AfdPrefillWorkers, AreAddedWhereTheyPay) {
  const StaticRow options[] = {PrefillRow(100, 2, 1), PrefillRow(50, 2, 4)};
  AfdChoice choice;
  AfdPrefillLimits limits{.gpu_budget = 64, .ttft = 1000};
  // 9.5 requests per second are decoded; six workers of 1.8 make them with 22 GPUs, five only 9
  // with 21.
  const auto row = CombineWithPrefill(DecodeRow(), options, limits, choice, false);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->partner->workers, 6);
  EXPECT_EQ(row->num_total_gpus, 22);
  EXPECT_DOUBLE_EQ(row->seq_s, 9.5);
  EXPECT_DOUBLE_EQ(row->ttft, 180);
  EXPECT_DOUBLE_EQ(row->request_latency, 1180);
  EXPECT_DOUBLE_EQ(row->tokens_s_gpu, 9.5 * 101 / 22);
  EXPECT_DOUBLE_EQ(row->memory, 60);
  EXPECT_TRUE(row->combined_with_static);

  limits.gpu_budget = 21;
  EXPECT_EQ(CombineWithPrefill(DecodeRow(), options, limits, choice, false)->partner->workers, 5);
  choice.max_prefill_workers = 2;
  EXPECT_EQ(CombineWithPrefill(DecodeRow(), options, limits, choice, false)->partner->workers, 2);
  choice.max_prefill_workers.reset();
  choice.max_prefill_gpus = 3;
  EXPECT_EQ(CombineWithPrefill(DecodeRow(), options, limits, choice, false)->partner->workers, 3);
}

TEST(AfdPrefillWorkers, MustMeetTheTargets) {
  const StaticRow options[] = {PrefillRow(100, 2, 2), PrefillRow(50, 2, 4)};
  AfdPrefillLimits limits{.gpu_budget = 64, .ttft = 100};
  const auto fast = CombineWithPrefill(DecodeRow(), options, limits, {}, false);
  ASSERT_TRUE(fast);
  EXPECT_DOUBLE_EQ(fast->ttft, 90);  // the wider worker
  limits.ttft = 80;
  EXPECT_FALSE(CombineWithPrefill(DecodeRow(), options, limits, {}, false));
  limits.ttft = 1000;
  limits.request_latency = 1089;
  EXPECT_FALSE(CombineWithPrefill(DecodeRow(), options, limits, {}, false));
  limits.request_latency = 1090;
  EXPECT_TRUE(CombineWithPrefill(DecodeRow(), options, limits, {}, false));
  limits.gpu_budget = 17;  // no room for even one worker
  EXPECT_FALSE(CombineWithPrefill(DecodeRow(), options, limits, {}, false));
}

class AfdSearches : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto root = testing::SystemsRoot();
    ASSERT_TRUE(root) << "no measured data: run infercast data fetch";
    systems_ = std::make_unique<SystemsCatalog>(SystemsCatalog({*root}));
    checkpoints_.config_dirs.push_back(root->parent_path() / "model_configs");
    bench_ = std::make_unique<Workbench>(*systems_, checkpoints_);
    task_.mode = ServingMode::kAfd;
    task_.behaviour = Behaviour::kReference;
    task_.worker.model = "Qwen/Qwen3-235B-A22B";
    task_.worker.system = "h200_sxm";
    task_.worker.backend = Backend::kVllm;
    task_.worker.version = "0.24.0";
    task_.total_gpus = 32;
    task_.workload.isl = 4000;
    task_.workload.osl = 500;
    task_.ttft = 3000;
    task_.tpot = 60;
    task_.pareto_sweep = false;
    task_.afd.tp_a_candidates = {1, 4};
    task_.afd.microbatch_candidates = {3, 4};
    task_.afd.pipeline_candidates = {AfdPipeline::kOptimistic};
    task_.afd.f_moe_ep_candidates = {"tp_f"};
    task_.afd.prefill_batches = {1, 2};
    task_.prefill.lists.num_gpu = {4, 8};
    task_.prefill.lists.tp = {4, 8};
    task_.prefill.lists.dp = {1};
    task_.prefill.lists.moe_tp = {1};
    task_.prefill.lists.moe_ep = {4, 8};
  }

  std::unique_ptr<SystemsCatalog> systems_;
  CheckpointSearch checkpoints_;
  std::unique_ptr<Workbench> bench_;
  Task task_;
};

TEST_F(AfdSearches, FindTheRecordedRows) {
  const auto table = RunTask(task_, *bench_);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows.size(), 46U);
  EXPECT_EQ(table->tally.evaluated, 164U);
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, double>> best;
  for (std::size_t i = 0; i < 4; ++i) {
    const AfdRow& row = *table->rows[i].afd();
    EXPECT_DOUBLE_EQ(row.tokens_s_gpu, 161.55);
    EXPECT_DOUBLE_EQ(row.ttft, 626.732);
    EXPECT_EQ(row.num_total_gpus, 32);
    ASSERT_TRUE(row.partner);
    EXPECT_EQ(row.partner->workers, 2);
    best.emplace(row.layout.Text(), row.schedule.batch, row.schedule.micro_batches, row.tpot);
  }
  EXPECT_THAT(best,
              ::testing::UnorderedElementsAre(std::tuple("a1n-tp1+f2n-ep16", 56, 4, 59.323),
                                              std::tuple("a1n-tp1+f2n-ep16", 128, 3, 53.621),
                                              std::tuple("a1n-tp4+f2n-ep16", 584, 3, 55.265),
                                              std::tuple("a1n-tp4+f2n-ep16", 248, 4, 59.935)));
  EXPECT_LT(table->rows[4].afd()->tokens_s_gpu, 161.55);
}

TEST_F(AfdSearches, NativeRowsAreExactAndMeetTheTargets) {
  task_.behaviour = Behaviour::kNative;
  const auto table = RunTask(task_, *bench_);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_FALSE(table->rows.empty());
  EXPECT_NEAR(table->rows[0].afd()->tokens_s_gpu, 161.55, 0.01);
  double last = INFINITY;
  for (const TaskRow& row : table->rows) {
    EXPECT_LE(row.afd()->tokens_s_gpu, last);
    last = row.afd()->tokens_s_gpu;
    EXPECT_LE(row.afd()->tpot, 60);
    EXPECT_LE(row.afd()->ttft, 3000);
    EXPECT_LE(row.afd()->num_total_gpus, 32);
    EXPECT_TRUE(row.afd()->fits());
  }
}

TEST_F(AfdSearches, AcceptedDraftsCountNatively) {
  task_.nextn = 1;
  task_.nextn_accepted = 0.5;
  task_.afd.combined_with_pd = false;
  const auto reference = RunTask(task_, *bench_);
  ASSERT_TRUE(reference) << reference.error().message;
  for (const TaskRow& row : reference->rows) {
    EXPECT_DOUBLE_EQ(row.afd()->tpot, row.afd()->decode->step);
  }
  task_.behaviour = Behaviour::kNative;
  const auto native = RunTask(task_, *bench_);
  ASSERT_TRUE(native) << native.error().message;
  for (const TaskRow& row : native->rows) {
    EXPECT_DOUBLE_EQ(row.afd()->tpot, row.afd()->decode->step / 1.5);
    EXPECT_LE(row.afd()->tpot, 60);
  }
  EXPECT_GT(native->rows[0].afd()->tokens_s_gpu, reference->rows[0].afd()->tokens_s_gpu);
}

TEST_F(AfdSearches, PinnedSplitsAreOneRow) {
  task_.afd.n_a_nodes = 1;
  task_.afd.n_f_nodes = 1;
  task_.afd.tp_a = 1;
  task_.afd.a_batch = 2;
  const auto reference = RunTask(task_, *bench_);
  ASSERT_TRUE(reference) << reference.error().message;
  ASSERT_EQ(reference->rows.size(), 1U);
  EXPECT_TRUE(reference->rows[0].afd()->combined_with_static);
  EXPECT_TRUE(reference->rows[0].afd()->prefill && reference->rows[0].afd()->decode);
  task_.behaviour = Behaviour::kNative;
  const auto native = RunTask(task_, *bench_);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_FALSE(native->rows[0].afd()->combined_with_static);
  task_.afd.a_batch = 200;
  EXPECT_EQ(RunTask(task_, *bench_).error().kind, ErrorKind::kDoesNotFit);
  task_.behaviour = Behaviour::kReference;
  const auto marked = RunTask(task_, *bench_);
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_FALSE(marked->rows[0].afd()->fits());
}

TEST_F(AfdSearches, SayWhyNothingIsLeft) {
  task_.tpot = 1;
  const auto slow = RunTask(task_, *bench_);
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().kind, ErrorKind::kNoFeasibleConfig);
  EXPECT_THAT(slow.error().message, ::testing::HasSubstr("time per token"));
  EXPECT_THAT(slow.error().message,
              ::testing::ContainsRegex("nearest: a[0-9]n-tp[14].f[0-9]n-ep[0-9]+ with batch 1 in 3 "
                                       "micro-batches: tpot [0-9.]+ > 1 ms;"));
  task_.tpot = 60;
  task_.ttft = 1;
  const auto late = RunTask(task_, *bench_);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kNoFeasibleConfig);
  EXPECT_THAT(late.error().message, ::testing::HasSubstr("no prefill workers"));
  // The fastest prefill worker's first token; nothing else is broken.
  EXPECT_THAT(late.error().message,
              ::testing::ContainsRegex("nearest: [^;]* micro-batches: ttft [0-9.]+ > 1 ms;"));
  task_.ttft = 3000;
  task_.request_latency = 5000;
  const auto long_requests = RunTask(task_, *bench_);
  ASSERT_FALSE(long_requests);
  EXPECT_THAT(long_requests.error().message,
              ::testing::ContainsRegex("nearest: [^;]*request latency [0-9.]+ > 5000 ms"));
  task_.request_latency.reset();
  task_.total_gpus.reset();
  EXPECT_EQ(RunTask(task_, *bench_).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
