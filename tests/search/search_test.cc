// Grids, candidates, Pareto fronts, picking, and whole searches against recorded results.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "search/aggregated_search.h"
#include "search/candidates.h"
#include "search/disaggregated_search.h"
#include "search/pareto.h"
#include "search/picking.h"
#include "search/reference_sort.h"
#include "serving/deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

using List = std::vector<std::int64_t>;

TEST(Candidates, GridsFollowTheInputLength) {
  EXPECT_EQ(ContextTokenGrid(4000, 512, false), (List{4000, 8000}));
  EXPECT_EQ(ContextTokenGrid(3000, 512, false), (List{3000, 6000}));
  EXPECT_EQ(ContextTokenGrid(2926, 512, false), (List{2926, 5852}));
  EXPECT_EQ(ContextTokenGrid(4000, 512, true),
            (List{512, 1024, 1536, 2048, 2560, 3072, 3584, 4000, 4096, 4608, 5120, 5632, 6144, 6656,
                  7168, 7680, 8000, 8192}));
  EXPECT_EQ(ContextTokenGrid(6000, 512, true),
            (List{512,  1024, 1536, 2048, 2560, 3072, 3584, 4096, 4608,  5120,
                  5632, 6000, 6144, 6656, 7168, 7680, 8192, 9692, 11192, 12000}));
  EXPECT_EQ(TpotSweep().size(), 75U);
  EXPECT_EQ(AggregatedBatches(512).size(), 44U);
  EXPECT_EQ(DecodeBatches(600).back(), 600);
}

TEST(Candidates, RequestLatencySplitsIntoTargetPairs) {
  const auto pairs = RequestLatencyTargets(12000, 2000, 500);
  ASSERT_EQ(pairs.size(), 14U);
  EXPECT_DOUBLE_EQ(pairs.front().ttft, 300);
  EXPECT_DOUBLE_EQ(pairs.front().tpot, 23.44689378757515);
  EXPECT_NEAR(pairs.back().ttft, 8400, 1e-9);
  EXPECT_NEAR(pairs.back().tpot, 7.214428857715431, 1e-9);
  EXPECT_TRUE(RequestLatencyTargets(12000, 2000, 1).empty());
}

TEST(Candidates, BackendsRestrictTheProduct) {
  CandidateLists lists;
  lists.num_gpu = lists.tp = lists.dp = lists.moe_tp = lists.moe_ep = {1, 2, 4, 8, 16};
  lists.pp = lists.cp = {1};
  EXPECT_EQ(EnumerateLayouts(lists, {.backend = Backend::kVllm, .is_moe = true})->size(), 29U);
  const auto trtllm = EnumerateLayouts(lists, {.backend = Backend::kTrtllm, .is_moe = true});
  ASSERT_TRUE(trtllm);
  for (const ParallelLayout& l : *trtllm) {
    EXPECT_EQ(l.AttentionWidth(), *l.moe_tp * *l.moe_ep);
    EXPECT_FALSE(l.dp > 1 && l.tp > 1);
  }
  lists.cp = {1, 2};
  EXPECT_EQ(EnumerateLayouts(lists, {.backend = Backend::kVllm}).error().kind,
            ErrorKind::kInvalidArgument);
}

TEST(Pareto, KeepsWhatNoOtherPointBeats) {
  const std::vector<FrontPoint> points = {{1, 5}, {2, 4}, {2, 4}, {3, 1}, {2, 3}, {0, 5}, {4, NAN}};
  EXPECT_EQ(ParetoFront(points, true, true), (std::vector<std::uint32_t>{0, 1, 3}));
  EXPECT_EQ(ParetoFront(points, false, true), (std::vector<std::uint32_t>{5}));
}

TEST(ReferenceSort, IsASortAndStableForFewRows) {
  std::vector<double> keys;
  for (int i = 0; i < 200; ++i) keys.push_back((i * 37) % 11);
  std::vector<double> sorted;
  for (const std::uint32_t i : ReferenceSortDescending(keys)) sorted.push_back(keys[i]);
  EXPECT_TRUE(std::is_sorted(sorted.rbegin(), sorted.rend()));
  EXPECT_EQ(ReferenceSortDescending(std::vector<double>{1, 2, 2, 1}),
            (std::vector<std::uint32_t>{1, 2, 0, 3}));
}

TEST(ReferenceSort, LeavesEqualsInTheRecordedOrder) {
  std::vector<double> keys;
  for (int i = 0; i < 40; ++i) keys.push_back((i * 37) % 11 % 4);
  EXPECT_EQ(ReferenceSortDescending(keys),
            (std::vector<std::uint32_t>{20, 32, 31, 21, 9,  10, 17, 30, 29, 28, 19, 18, 39, 6,
                                        8,  7,  26, 25, 4,  5,  27, 14, 3,  36, 37, 38, 16, 15,
                                        34, 33, 2,  35, 13, 24, 23, 22, 1,  11, 12, 0}));
}

PickRow Row(const char* group, double tpot, double per_gpu, std::int64_t gpus, double seq_s) {
  PickRow row;
  row.group = group;
  row.tpot = tpot;
  row.tokens_s_gpu = per_gpu;
  row.tokens_s_user = 1000 / tpot;
  row.num_total_gpus = gpus;
  row.seq_s = seq_s;
  return row;
}

TEST(Picking, ClusterAndLoad) {
  const std::vector<PickRow> rows = {Row("a", 20, 100, 2, 3), Row("a", 40, 300, 2, 9),
                                     Row("b", 25, 120, 3, 5)};
  const PickResult cluster = PickForCluster(rows, 8, {.tpot = 30}, 5, Behaviour::kNative);
  ASSERT_EQ(cluster.best.size(), 2U);
  EXPECT_EQ(cluster.best[0].row, 0U);  // 100 of 8 GPUs beat 120 of 6 of 8
  EXPECT_DOUBLE_EQ(cluster.best_value, 100);
  EXPECT_DOUBLE_EQ(cluster.best[1].tokens_s_gpu_cluster, 90);
  EXPECT_FALSE(cluster.exceeded);
  EXPECT_TRUE(PickForCluster(rows, 8, {.tpot = 1}, 5, Behaviour::kNative).exceeded);
  EXPECT_TRUE(
      PickForCluster(rows, 8, {.tpot = 1, .strict = true}, 5, Behaviour::kNative).best.empty());

  const auto load = PickForLoad(rows, {.request_rate = 10}, {.tpot = 30}, 5, Behaviour::kNative);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->best[0].row, 2U);
  EXPECT_EQ(load->best[0].replicas_needed, 2);
  EXPECT_EQ(load->best[0].total_gpus_needed, 6);
  EXPECT_EQ(PickForLoad(rows, {}, {.tpot = 30}, 5, Behaviour::kNative).error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(
      PickForLoad(rows, {.request_rate = -1}, {.tpot = 30}, 5, Behaviour::kNative).error().kind,
      ErrorKind::kInvalidArgument);
}

TEST(Picking, ByObjectiveNeedsNoTarget) {
  const std::vector<PickRow> rows = {Row("a", 20, 100, 2, 3), Row("a", 40, 300, 2, 9),
                                     Row("b", 25, 300, 2, 5), Row("c", 10, 50, 2, 5),
                                     Row("d", 5, 900, 16, 5)};
  const auto positions = [](const PickResult& result) {
    std::vector<std::uint32_t> out;
    for (const Pick& p : result.best) out.push_back(p.row);
    return out;
  };
  const auto pick = [&](Objective objective, Behaviour behaviour) {
    return PickByObjective(rows, 8, objective, 3, behaviour);
  };
  EXPECT_EQ(positions(pick(Objective::kThroughput, Behaviour::kNative)),
            (std::vector<std::uint32_t>{2, 1, 3}));
  EXPECT_EQ(positions(pick(Objective::kLatency, Behaviour::kNative)),
            (std::vector<std::uint32_t>{3, 0, 2}));
  // The reference keeps replicas that are larger than the cluster.
  EXPECT_EQ(positions(pick(Objective::kLatency, Behaviour::kReference)).front(), 4U);
}

TEST(WorkerMatching, NeverExceedsTheLimitOfUnlistedSizes) {
  StaticRow prefill;
  prefill.seq_s = 1;
  prefill.num_total_gpus = 2;
  StaticRow decode;
  decode.seq_s = 3.7;
  decode.num_total_gpus = 4;
  for (std::int64_t limit = 1; limit <= 40; ++limit) {
    ReplicaRules listed;
    for (std::int64_t n = 1; n <= limit; ++n) listed.allowed_gpus.push_back(n);
    ReplicaRules unlisted;
    unlisted.max_gpus = limit;
    const WorkerMatch a = MatchWorkers(prefill, decode, {}, listed);
    const WorkerMatch b = MatchWorkers(prefill, decode, {}, unlisted);
    EXPECT_EQ(a.prefill, b.prefill) << limit;
    EXPECT_EQ(a.decode, b.decode) << limit;
    EXPECT_LE(2 * b.prefill + 4 * b.decode, limit);
  }
}

TEST(SearchErrors, ABrokenLayoutIsNotTheReasonWhereOthersCameFurther) {
  SearchTally tally;
  tally.failure = Error{ErrorKind::kInvalidArgument, "tp 3 does not divide the heads"};
  tally.failed_layouts = 1;
  EXPECT_EQ(NothingFound(tally, "x", Behaviour::kNative).kind, ErrorKind::kInvalidArgument);
  tally.oom = 1;
  EXPECT_EQ(NothingFound(tally, "x", Behaviour::kNative).kind, ErrorKind::kDoesNotFit);
  tally.evaluated = 1;
  EXPECT_EQ(NothingFound(tally, "x", Behaviour::kNative).kind, ErrorKind::kNoFeasibleConfig);
  EXPECT_EQ(NothingFound(tally, "x", Behaviour::kReference).kind, ErrorKind::kInvalidArgument);
}

TEST(WorkerMatching, PrefersTheBestRatePerGpu) {
  StaticRow prefill;
  prefill.seq_s = 3.391;
  prefill.num_total_gpus = 1;
  StaticRow decode;
  decode.seq_s = 6.301;
  decode.num_total_gpus = 2;
  ReplicaRules rules;
  rules.allowed_gpus = {1, 2, 4, 8, 16, 24, 32};
  const WorkerMatch match = MatchWorkers(prefill, decode, {}, rules);
  EXPECT_EQ(match.prefill, 2);
  EXPECT_EQ(match.decode, 1);
  EXPECT_DOUBLE_EQ(match.rate, 5.79692);
  // Without size limits a scan over all counts finds nothing better.
  rules.allowed_gpus.clear();
  const WorkerMatch free = MatchWorkers(prefill, decode, {}, rules);
  double best = 0;
  for (int y = 1; y <= 32; ++y) {
    for (int x = 1; x <= 32; ++x) {
      best = std::max(best, std::min(3.391 * x * 0.9, 6.301 * y * 0.92) / (x + 2 * y));
    }
  }
  EXPECT_DOUBLE_EQ(free.rate / static_cast<double>(free.prefill + 2 * free.decode), best);
}

struct Searched {
  AggregatedSearchResult aggregated;
  DisaggregatedSearchResult disaggregated;
};

std::optional<Searched> SearchQwen32Fp8(Behaviour behaviour) {
  const auto root = testing::SystemsRoot();
  if (!root) return std::nullopt;
  DeploymentRequest request;
  request.model = "Qwen/Qwen3-32B-FP8";
  request.system = "h200_sxm";
  request.behaviour = behaviour;
  CheckpointSearch checkpoints;
  checkpoints.config_dirs.push_back(root->parent_path() / "model_configs");
  const auto deployment = Deployment::Open(request, SystemsCatalog({*root}), checkpoints);
  if (!deployment) return std::nullopt;
  CandidateLists lists;
  lists.num_gpu = lists.tp = {1, 2, 4, 8};
  lists.pp = {1};
  const auto layouts = EnumerateLayouts(lists, {.backend = Backend::kTrtllm});
  const WorkerSource source = [&](const ParallelLayout& l) { return (*deployment)->MakeWorker(l); };
  Workload workload;
  std::vector<LatencyTarget> targets;
  for (const double tpot : TpotSweep()) targets.push_back({2000, tpot});
  DisaggregatedSearchOptions options;
  options.replica.allowed_gpus = {1, 2, 4, 8, 16, 24, 32};
  return Searched{SearchAggregated(*layouts, source, workload, targets, {}, behaviour),
                  SearchDisaggregated(*layouts, source, *layouts, source, workload, targets,
                                      options, behaviour)};
}

template <typename R>
std::vector<PickRow> PickRows(const std::vector<R>& rows) {
  std::vector<PickRow> out;
  for (const R& r : rows) {
    PickRow row;
    if constexpr (std::is_same_v<R, AggregatedRow>) {
      row.group = r.worker->parallel;
    } else {
      row.group = r.decode.worker->parallel;
    }
    row.ttft = r.ttft;
    row.tpot = r.tpot;
    row.request_latency = r.request_latency;
    row.tokens_s_gpu = r.tokens_s_gpu;
    row.tokens_s_user = r.tokens_s_user;
    row.seq_s = r.seq_s;
    row.concurrency = r.concurrency;
    row.num_total_gpus = r.num_total_gpus;
    out.push_back(row);
  }
  return out;
}

TEST(Search, FindsTheRecordedDeployments) {
  const auto found = SearchQwen32Fp8(Behaviour::kReference);
  if (!found) GTEST_SKIP() << "no measured data package";
  EXPECT_EQ(found->aggregated.rows.size(), 282U);
  EXPECT_EQ(found->disaggregated.rows.size(), 41U);
  const auto agg =
      PickForCluster(PickRows(found->aggregated.rows), 32, {.tpot = 30}, 5, Behaviour::kReference);
  ASSERT_GE(agg.best.size(), 2U);
  EXPECT_NEAR(agg.best_value, 1368.352, 1e-3);
  EXPECT_EQ(agg.front.size(), 41U);
  const AggregatedRow& first = found->aggregated.rows[agg.best[0].row];
  EXPECT_EQ(first.worker->layout.tp, 2);
  EXPECT_EQ(first.bs, 64);
  EXPECT_EQ(first.ctx_tokens, 8000);
  EXPECT_NEAR(first.ttft, 1122.572, 1e-3);
  EXPECT_NEAR(first.tpot, 22.454, 1e-3);
  const auto disagg = PickForCluster(PickRows(found->disaggregated.rows), 32, {.tpot = 30}, 5,
                                     Behaviour::kReference);
  ASSERT_GE(disagg.best.size(), 2U);
  EXPECT_NEAR(disagg.best_value, 1449.23, 1e-3);
  EXPECT_EQ(disagg.front.size(), 13U);
  const DisaggregatedRow& pools = found->disaggregated.rows[disagg.best[0].row];
  EXPECT_EQ(pools.prefill_workers, 2);
  EXPECT_EQ(pools.decode_workers, 1);
  EXPECT_EQ(pools.decode.bs, 128);
  EXPECT_NEAR(pools.tpot, 20.333, 1e-3);
}

TEST(Search, ThreadsDoNotChangeTheResult) {
  const auto parallel = SearchQwen32Fp8(Behaviour::kNative);
  if (!parallel) GTEST_SKIP() << "no measured data package";
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const auto serial = SearchQwen32Fp8(Behaviour::kNative);
  ASSERT_EQ(parallel->aggregated.rows.size(), serial->aggregated.rows.size());
  for (std::size_t i = 0; i < serial->aggregated.rows.size(); ++i) {
    EXPECT_EQ(parallel->aggregated.rows[i].tokens_s_gpu, serial->aggregated.rows[i].tokens_s_gpu);
    EXPECT_EQ(parallel->aggregated.rows[i].tpot, serial->aggregated.rows[i].tpot);
    EXPECT_EQ(parallel->aggregated.rows[i].worker->parallel,
              serial->aggregated.rows[i].worker->parallel);
  }
  // Native keeps every row that fits; none of them may lack room for its KV cache.
  EXPECT_GE(parallel->aggregated.rows.size(), 282U);
  for (const AggregatedRow& row : parallel->aggregated.rows) EXPECT_TRUE(row.verdict.fits());
}

}  // namespace
}  // namespace infercast
