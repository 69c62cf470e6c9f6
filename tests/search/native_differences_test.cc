// Where native searches differ from the reference, each difference by a test of its own, both
// behaviours side by side. Which test stands for which line of docs/differences.md:
//
//   Aggregated search: points; rows kept       NativeDifferences.EveryPointThatMeetsATargetIsARow
//   Aggregated search: order                   NativeRuns.RowsAreTotallyOrdered
//   Tokens per second of aggregated rows       NativeDifferences.EveryOutputTokenCounts,
//                                              NativeRuns.SingleOutputTokensHaveARate
//   Per-GPU rates under context parallelism    NativeDifferences.RanksThatSplitAContextAreGpus
//   (no line: in both behaviours no worker is proposed whose KV cache has no room)
//                                              NativeRuns.EveryProposedWorkerHoldsItsKvCache
//   Disaggregated search: composition          NativeDifferences.PoolsAreComposedOfExactRows
//   Disaggregated search: ties                 NativeDifferences.AmongEqualPairsTheFasterOneWins
//   Disaggregated search: KV length given      NativeDifferences.DecodeWorkersReserveTheKvLength
//   Disaggregated search: nothing meets ...    NativeRuns.ImpossibleTargetsSayWhatIsNearest
//   Pools: a worker exactly at its target      NativeDifferences.ATargetThatIsJustMetIsMet
//   Targets of a sweep                         NativeRuns.TargetsBetweenGridValuesLoseNoRow,
//                                              NativeDifferences.ARowBetweenTwoTargetsIsFound,
//                                              TaskTargets.NativeKeepsTheUsersOwn
//   Request-latency target                     NativeRuns.RequestLatencyKeepsTheFirstTokenTarget
//   Picking for a cluster: best of a group     PickingDifferences.TheFasterOfEqualsIsTheBest
//   Picking for a cluster: replica larger ...  PickingDifferences.WhatIsTooLargeIsDropped
//   Picking for a cluster: no cluster size     PickingDifferences.WithoutAClusterThereIsABest
//   Picking, nothing meets the target          PickingDifferences.TheNearestMissStandsForItsGroup
//   Picking for a load: strict constraint      PickingDifferences.StrictLoadsKeepTheTarget,
//                                              NativeRuns.StrictLoadsRefuseRowsThatMissTheTarget
//   Picking for a load with a limit of GPUs    PickingDifferences.ALimitBelowOneReplicaPicksNothing
//   Merging backends for a load                NativeRuns.LoadIsServedByTheFewestGpusOfAnyBackend
//   Fewest GPUs for a load: replicas           NativeRuns.ReplicasOfOddSizesServeLoads
//   Searches without a result                  NativeRuns.ModelsTooLargeAreDoesNotFit,
//                                              SearchErrors.ABrokenLayoutIsNotTheReason...
//   Pools that scale on their own              Points.PoolsScaleOnTheirOwn
//   Experiments from a file: ... version       NativeDifferences.AWrongVersionIsTheErrorOfIts...
//   Attention/FFN disaggregation               AfdSearches.*Natively, AfdSearches.Native...,
//                                              AfdSearches.PinnedSplitsAreOneRow
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/rounding.h"
#include "search/experiments.h"
#include "search/run_fixture.h"
#include "search/run_task.h"

namespace infercast {
namespace {

class NativeDifferences : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
    bench_.emplace(data_->systems, data_->checkpoints);
    for (RoleChoice* role : {&task_.worker, &task_.prefill, &task_.decode}) {
      role->model = "Qwen/Qwen3-32B-FP8";
      role->system = "h200_sxm";
      role->backend = Backend::kTrtllm;
    }
    task_.total_gpus = 32;
    task_.workload = {.isl = 4000, .osl = 1000};
    task_.ttft = 2000;
    task_.tpot = 30;
  }

  TaskTable Run(ServingMode mode, Behaviour behaviour) {
    Task task = task_;
    task.mode = mode;
    task.behaviour = behaviour;
    // Fields of other modes are contradictions.
    if (mode == ServingMode::kDisaggregated) task.worker = RoleChoice();
    const auto resolved = ResolveTask(task, *bench_);
    if (!resolved) {
      ADD_FAILURE() << resolved.error().message;
      return {};
    }
    auto table = RunTask(*resolved, *bench_);
    if (!table) {
      ADD_FAILURE() << table.error().message;
      return {};
    }
    return *std::move(table);
  }
  TaskTable Aggregated(Behaviour behaviour) { return Run(ServingMode::kAggregated, behaviour); }
  TaskTable Pools(Behaviour behaviour) { return Run(ServingMode::kDisaggregated, behaviour); }

  std::unique_ptr<testing::MeasuredSystems> data_;
  std::optional<Workbench> bench_;
  Task task_;
};

using PointKey = std::tuple<std::string, std::int64_t, std::int64_t>;

std::map<PointKey, const AggregatedRow*> ByPoint(const TaskTable& table) {
  std::map<PointKey, const AggregatedRow*> rows;
  for (const TaskRow& row : table.rows) {
    const AggregatedRow& r = *row.aggregated();
    rows[{r.worker->parallel, r.bs, r.ctx_tokens}] = &r;
  }
  return rows;
}

TEST_F(NativeDifferences, EveryPointThatMeetsATargetIsARow) {
  task_.workload = {.isl = 1000, .osl = 100};
  const TaskTable native = Aggregated(Behaviour::kNative);
  const TaskTable reference = Aggregated(Behaviour::kReference);
  // The reference skips points that it takes for equal, and keeps ten rows per layout and target.
  EXPECT_GT(native.tally.evaluated, reference.tally.evaluated);
  const auto all = ByPoint(native);
  EXPECT_EQ(all.size() + native.tally.missed, native.tally.evaluated);
  for (const auto& [key, row] : ByPoint(reference)) {
    EXPECT_TRUE(all.contains(key)) << std::get<0>(key) << " " << std::get<1>(key);
  }
  EXPECT_GT(all.size(), reference.rows.size());
}

TEST_F(NativeDifferences, EveryOutputTokenCounts) {
  const TaskTable native = Aggregated(Behaviour::kNative);
  const TaskTable reference = Aggregated(Behaviour::kReference);
  const auto ours = ByPoint(native);
  // Native mixed steps have prices of their own (tests/engine/mixed_bounds_test.cc).
  const auto interval_ms = [](const AggregatedRow& r) {
    return r.num_mixed_steps * r.mixed_step_ms + r.num_decode_steps * r.decode_step_ms;
  };
  for (const auto& [key, row] : ByPoint(reference)) {
    const AggregatedRow& r = *ours.at(key);
    EXPECT_DOUBLE_EQ(r.tokens_s, r.seq_s * 1000);
    const double requests = r.seq_s * interval_ms(r) / interval_ms(*row);
    EXPECT_NEAR(row->tokens_s, requests * 999, 0.001);
    EXPECT_NEAR(row->seq_s, requests, 0.001);
    EXPECT_EQ(row->decode_step_ms, r.decode_step_ms);
  }
}

TEST_F(NativeDifferences, RanksThatSplitAContextAreGpus) {
  for (RoleChoice* role : {&task_.worker, &task_.prefill, &task_.decode}) {
    role->backend = Backend::kSglang;
  }
  task_.total_gpus = 8;
  bool split = false;
  for (const TaskRow& row : Aggregated(Behaviour::kNative).rows) {
    const AggregatedRow& r = *row.aggregated();
    EXPECT_EQ(r.num_total_gpus, r.worker->layout.GpusPerWorker());
    EXPECT_DOUBLE_EQ(r.seq_s_gpu, r.seq_s / static_cast<double>(r.num_total_gpus));
    split = split || r.worker->layout.cp > 1;
  }
  EXPECT_TRUE(split);
  split = false;
  for (RoleChoice* role : {&task_.prefill, &task_.decode}) {
    role->model = "Qwen/Qwen3-30B-A3B";
    role->system = "h100_sxm";
  }
  task_.workload.prefix = 1000;
  for (const TaskRow& row : Pools(Behaviour::kNative).rows) {
    const DisaggregatedRow& r = *row.disaggregated();
    const ParallelLayout& p = r.prefill.worker->layout;
    EXPECT_EQ(r.num_total_gpus, p.GpusPerWorker() * r.prefill_workers +
                                    r.decode.worker->layout.GpusPerWorker() * r.decode_workers);
    EXPECT_DOUBLE_EQ(r.prefill.seq_s_gpu,
                     r.prefill.seq_s / static_cast<double>(p.tp * p.pp * p.dp * p.cp));
    split = split || p.cp > 1;
  }
  EXPECT_TRUE(split);
}

TEST_F(NativeDifferences, PoolsAreComposedOfExactRows) {
  const auto composed = [](const DisaggregatedRow& r) {
    return std::min(r.prefill.seq_s * static_cast<double>(r.prefill_workers) * 0.9,
                    r.decode.seq_s * static_cast<double>(r.decode_workers) * 0.92);
  };
  bool finer = false;
  for (const TaskRow& row : Pools(Behaviour::kNative).rows) {
    const DisaggregatedRow& r = *row.disaggregated();
    EXPECT_EQ(r.seq_s, composed(r));
    finer = finer || RoundTable(r.prefill.seq_s, 3) != r.prefill.seq_s;
  }
  EXPECT_TRUE(finer);
  for (const TaskRow& row : Pools(Behaviour::kReference).rows) {
    const DisaggregatedRow& r = *row.disaggregated();
    EXPECT_EQ(r.seq_s, RoundTable(composed(r), 3));
    EXPECT_EQ(RoundTable(r.prefill.seq_s, 3), r.prefill.seq_s);
    EXPECT_EQ(RoundTable(r.decode.seq_s, 3), r.decode.seq_s);
  }
}

// The best row of a decode layout under the task's targets.
const DisaggregatedRow* BestOf(const TaskTable& table, std::int64_t decode_tp, double tpot) {
  for (const TaskRow& row : table.rows) {
    const DisaggregatedRow* r = row.disaggregated();
    if (r->decode.worker->layout.tp == decode_tp && r->tpot <= tpot) return r;
  }
  return nullptr;
}

TEST_F(NativeDifferences, AmongEqualPairsTheFasterOneWins) {
  const TaskTable native = Pools(Behaviour::kNative);
  const TaskTable reference = Pools(Behaviour::kReference);
  const DisaggregatedRow* ours = BestOf(native, 8, 30);
  const DisaggregatedRow* theirs = BestOf(reference, 8, 30);
  ASSERT_TRUE(ours != nullptr && theirs != nullptr);
  // Decoding limits both; the wider prefill workers answer sooner on as many GPUs.
  EXPECT_EQ(ours->num_total_gpus, theirs->num_total_gpus);
  EXPECT_NEAR(ours->seq_s, theirs->seq_s, 0.005);
  EXPECT_EQ(theirs->prefill.worker->layout.tp, 1);
  EXPECT_EQ(ours->prefill.worker->layout.tp, 2);
  EXPECT_LT(ours->ttft, theirs->ttft - 100);
}

TEST_F(NativeDifferences, DecodeWorkersReserveTheKvLength) {
  const auto largest = [&](Behaviour behaviour) {
    std::int64_t batch = 0;
    for (const TaskRow& row : Pools(behaviour).rows) {
      const DisaggregatedRow& r = *row.disaggregated();
      if (r.decode.worker->layout.tp == 1) batch = std::max(batch, r.decode.bs);
    }
    return batch;
  };
  const std::int64_t reference = largest(Behaviour::kReference);
  const std::int64_t native = largest(Behaviour::kNative);
  task_.max_seq_len = 40000;
  EXPECT_EQ(largest(Behaviour::kReference), reference);
  EXPECT_LT(largest(Behaviour::kNative), native / 2);
}

TEST_F(NativeDifferences, ATargetThatIsJustMetIsMet) {
  const TaskTable all = Pools(Behaviour::kNative);
  const DisaggregatedRow row = *BestOf(all, 2, 25);
  task_.pareto_sweep = false;
  task_.ttft = row.ttft;
  task_.tpot = row.tpot;
  const TaskTable native = Pools(Behaviour::kNative);
  const DisaggregatedRow* found = BestOf(native, 2, row.tpot);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->tpot, row.tpot);
  EXPECT_EQ(found->ttft, row.ttft);
  EXPECT_EQ(found->seq_s, row.seq_s);
  const DisaggregatedRow rounded = *BestOf(Pools(Behaviour::kReference), 2, 25);
  task_.ttft = 2000;
  task_.tpot = rounded.tpot;
  for (const TaskRow& r : Pools(Behaviour::kReference).rows) {
    EXPECT_LT(r.disaggregated()->tpot, rounded.tpot);
  }
}

TEST_F(NativeDifferences, ARowBetweenTwoTargetsIsFound) {
  // Evaluated one by one, no row under 33 ms is better than what the search finds under 33 ms.
  task_.tpot = 33;
  for (const ServingMode mode : {ServingMode::kAggregated, ServingMode::kDisaggregated}) {
    task_.pareto_sweep = true;
    double swept = 0;
    double alone = 0;
    for (double* best : {&swept, &alone}) {
      for (const TaskRow& row : Run(mode, Behaviour::kNative).rows) {
        const PickRow figures = PickRowOf(row);
        if (figures.tpot <= 33) *best = std::max(*best, figures.tokens_s_gpu);
      }
      task_.pareto_sweep = false;
    }
    EXPECT_GT(alone, 0);
    EXPECT_EQ(swept, alone);
  }
}

TEST_F(NativeDifferences, AWrongVersionIsTheErrorOfItsExperiment) {
  Task wrong = task_;
  wrong.worker.version = "9.9.9";
  const Experiment experiments[] = {{"wrong", wrong}, {"right", task_}};
  const auto native = RunExperiments(experiments, {}, *bench_);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->chosen, "right");
  ASSERT_TRUE(native->outcomes.at(0).error);
  EXPECT_EQ(native->outcomes[0].error->kind, ErrorKind::kUnknownName);
  // What the reference asks first.
  const Status checked = CheckVersions(experiments, *bench_);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kUnknownName);
  EXPECT_NE(checked.error().message.find("experiment wrong"), std::string::npos);
  EXPECT_TRUE(CheckVersions(std::span(experiments).subspan(1), *bench_));
}

// --- picking ---

PickRow Row(const char* group, double tpot, double per_gpu, std::int64_t gpus) {
  PickRow row;
  row.group = group;
  row.tpot = tpot;
  row.tokens_s_gpu = per_gpu;
  row.tokens_s_user = 1000 / tpot;
  row.num_total_gpus = gpus;
  row.seq_s = 10;
  row.concurrency = 10;
  return row;
}

std::vector<std::uint32_t> Positions(const PickResult& result) {
  std::vector<std::uint32_t> out;
  for (const Pick& pick : result.best) out.push_back(pick.row);
  return out;
}

using Picked = std::vector<std::uint32_t>;

Picked ForCluster(std::span<const PickRow> rows, std::int64_t gpus, double tpot, Behaviour b) {
  return Positions(PickForCluster(rows, gpus, {.tpot = tpot}, 5, b));
}

TEST(PickingDifferences, TheFasterOfEqualsIsTheBest) {
  const PickRow rows[] = {Row("a", 29, 100, 2), Row("a", 12, 100, 2), Row("a", 11, 99, 2)};
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kNative), Picked{1});
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kReference), Picked{0});
}

TEST(PickingDifferences, WhatIsTooLargeIsDropped) {
  const PickRow rows[] = {Row("a", 20, 100, 16), Row("b", 20, 50, 8)};
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kNative), Picked{1});
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kReference), (Picked{1, 0}));
}

TEST(PickingDifferences, WithoutAClusterThereIsABest) {
  const PickRow rows[] = {Row("a", 20, 100, 16), Row("b", 20, 150, 8)};
  EXPECT_EQ(ForCluster(rows, 0, 30, Behaviour::kNative), (Picked{1, 0}));
  EXPECT_TRUE(ForCluster(rows, 0, 30, Behaviour::kReference).empty());
}

TEST(PickingDifferences, TheNearestMissStandsForItsGroup) {
  const PickRow rows[] = {Row("a", 90, 300, 2), Row("a", 40, 200, 2)};
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kNative), Picked{1});
  EXPECT_EQ(ForCluster(rows, 8, 30, Behaviour::kReference), Picked{0});
}

TEST(PickingDifferences, StrictLoadsKeepTheTarget) {
  const PickRow rows[] = {Row("a", 40, 200, 2)};
  const LoadTarget load{.request_rate = 5};
  const Constraint strict{.tpot = 30, .strict = true};
  EXPECT_TRUE(PickForLoad(rows, load, strict, 5, Behaviour::kNative)->best.empty());
  EXPECT_EQ(Positions(*PickForLoad(rows, load, strict, 5, Behaviour::kReference)), Picked{0});
}

TEST(PickingDifferences, ALimitBelowOneReplicaPicksNothing) {
  const PickRow rows[] = {Row("a", 20, 200, 8)};
  const LoadTarget load{.request_rate = 5, .max_gpus = 4};
  const Constraint constraint{.tpot = 30};
  EXPECT_TRUE(PickForLoad(rows, load, constraint, 5, Behaviour::kNative)->best.empty());
  const auto reference = PickForLoad(rows, load, constraint, 5, Behaviour::kReference);
  ASSERT_EQ(reference->best.size(), 1U);
  EXPECT_GT(reference->best[0].total_gpus_needed, 4);
}

}  // namespace
}  // namespace infercast
