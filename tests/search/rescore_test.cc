// The second look of a search: rows that are shown were run as benchmarks, meet the targets by what
// came out, and say the same as an estimate of the same deployment.
#include "search/rescore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <optional>
#include <string>

#include "search/run_fixture.h"
#include "search/standard_runs.h"
#include "serving/replica_forecast.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;

class Rescored : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
    bench_.emplace(data_->systems, data_->checkpoints);
  }

  static RunRequest Request(Backend backend, ScoredBy score = ScoredBy::kClosedLoop) {
    RunRequest r;
    r.model = "Qwen/Qwen3-30B-A3B";
    r.system = "h200_sxm";
    r.backend = backend;
    r.workload.isl = 3000;
    r.workload.osl = 300;
    r.score = score;
    return r;
  }
  ExperimentsResult Run(const RunRequest& request, std::int64_t gpus = 8) {
    auto result = RunDefault(request, gpus, *bench_);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *std::move(result) : ExperimentsResult();
  }
  // The run of a row's deployment, made afresh.
  static ReplicaScore Alone(const TaskRow& row, const TaskTable& table, const Workload& workload) {
    const auto worker = [&](const WorkerIdentity* id) {
      const auto found =
          std::ranges::find_if(table.workers, [&](const auto& w) { return &w->identity() == id; });
      return found == table.workers.end() ? nullptr : *found;
    };
    ReplicaSpec spec;
    std::int64_t batch = 0, gpus = 0;
    if (const AggregatedRow* a = row.aggregated()) {
      spec.worker = worker(a->worker);
      spec.ctx_tokens = a->ctx_tokens;
      spec.batch = batch = a->bs;
      gpus = a->num_total_gpus;
    } else {
      const DisaggregatedRow& d = *row.disaggregated();
      spec.worker = worker(d.decode.worker);
      spec.prefill = worker(d.prefill.worker);
      spec.prefill_workers = d.prefill_workers;
      spec.decode_workers = d.decode_workers;
      spec.prefill_batch = d.prefill.bs;
      batch = d.decode.bs;
      gpus = d.num_total_gpus;
    }
    auto simulator = ReplicaSimulator::Create(spec);
    EXPECT_TRUE(simulator);
    const LoadSpec load = ClosedLoad(workload, *spec.worker, batch * spec.decode_ranks(), 1);
    const auto run =
        simulator->Run(PolicyOf(spec, load.concurrency, load.isl), CorrectionsOf(spec), load);
    EXPECT_TRUE(run);
    return ScoreOf(*run, workload.osl, gpus);
  }

  std::unique_ptr<testing::MeasuredSystems> data_;
  std::optional<Workbench> bench_;
};

TEST_F(Rescored, ShownRowsMeetTheTargetsByTheirRuns) {
  for (const Backend backend : {Backend::kTrtllm, Backend::kSglang, Backend::kVllm}) {
    const RunRequest request = Request(backend);
    const ExperimentsResult result = Run(request);
    ASSERT_FALSE(result.results.empty());
    for (const ExperimentResult& experiment : result.results) {
      ASSERT_FALSE(experiment.best.empty()) << experiment.name;
      double last = INFINITY;
      for (const PickedRow& picked : experiment.best) {
        ASSERT_TRUE(picked.row.score);
        if (!experiment.exceeded) {
          EXPECT_LE(picked.row.score->ttft, request.ttft);
          EXPECT_LE(picked.row.score->tpot, request.tpot);
          EXPECT_LE(picked.pick.tokens_s_gpu_cluster, last);
          last = picked.pick.tokens_s_gpu_cluster;
        }
        EXPECT_LE(picked.pick.tokens_s_gpu_cluster, picked.row.score->tokens_s_gpu * (1 + 1e-12));
        EXPECT_GE(picked.row.score->ttft_p99, picked.row.score->ttft);
      }
      for (const PickedRow& picked : experiment.front) EXPECT_TRUE(picked.row.score);
    }
    for (const ExperimentOutcome& outcome : result.outcomes) {
      // Formulas screen, runs are for few.
      const auto scored = std::ranges::count_if(
          outcome.table.rows, [](const TaskRow& row) { return row.score.has_value(); });
      EXPECT_GT(scored, 0);
      EXPECT_LT(scored, static_cast<std::ptrdiff_t>(outcome.table.rows.size()));
    }
  }
}

TEST_F(Rescored, AScoreIsThatOfTheDeploymentAlone) {
  const RunRequest request = Request(Backend::kVllm);
  const ExperimentsResult result = Run(request);
  int rows = 0;
  for (const ExperimentOutcome& outcome : result.outcomes) {
    for (const TaskRow& row : outcome.table.rows) {
      if (!row.score || ++rows % 5 != 0) continue;
      const ReplicaScore alone = Alone(row, outcome.table, request.workload);
      EXPECT_EQ(row.score->ttft, alone.ttft);
      EXPECT_EQ(row.score->tpot, alone.tpot);
      EXPECT_EQ(row.score->tokens_s_gpu, alone.tokens_s_gpu);
    }
  }
  EXPECT_GT(rows, 20);
}

TEST_F(Rescored, ThreadsChangeNothing) {
  const auto text = [](const ExperimentsResult& result) {
    std::string all = result.chosen;
    for (const ExperimentOutcome& outcome : result.outcomes) {
      for (const TaskRow& row : outcome.table.rows) {
        all += row.score ? std::to_string(row.score->ttft) + "/" + std::to_string(row.score->tpot)
                         : "-";
      }
      for (const Pick& pick : outcome.pick.best) all += " " + std::to_string(pick.row);
      for (const Pick& pick : outcome.pick.front) all += " " + std::to_string(pick.row);
    }
    return all;
  };
  const std::string many = text(Run(Request(Backend::kTrtllm)));
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(many, text(Run(Request(Backend::kTrtllm))));
}

TEST_F(Rescored, ATargetOfTheFirstTokenIsOneOfTheRun) {
  // The formula has rows within a tight target that the burst of a benchmark does not keep.
  RunRequest request = Request(Backend::kTrtllm);
  request.ttft = 500;
  const ExperimentsResult runs = Run(request);
  request.score = ScoredBy::kFormula;
  const ExperimentsResult formula = Run(request);
  int kept = 0;
  for (const ExperimentResult& experiment : runs.results) {
    if (experiment.exceeded) continue;
    for (const PickedRow& picked : experiment.best) {
      EXPECT_LE(PickRowOf(picked.row).ttft, 500);
      ++kept;
    }
  }
  EXPECT_GT(kept, 0);
  ASSERT_FALSE(formula.results.empty());
  const PickedRow& first = formula.results.front().best.front();
  EXPECT_FALSE(first.row.score);
  EXPECT_GT(Alone(first.row, formula.outcomes.front().table, request.workload).ttft, 500);
}

TEST_F(Rescored, WhatMissesEveryTargetIsShownNearestFirst) {
  RunRequest request = Request(Backend::kVllm);
  request.modes = {ServingMode::kAggregated};
  request.ttft = 2000;
  request.tpot = 0.5;
  const ExperimentsResult result = Run(request);
  ASSERT_EQ(result.results.size(), 1U);
  EXPECT_TRUE(result.results[0].exceeded);
  ASSERT_GT(result.results[0].best.size(), 1U);
  double last = 0;
  for (const PickedRow& picked : result.results[0].best) {
    ASSERT_TRUE(picked.row.score);
    EXPECT_GE(picked.row.score->tpot, last);
    last = picked.row.score->tpot;
  }
  request.strict = true;
  const auto strict = RunDefault(request, 8, *bench_);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::kNoFeasibleConfig);
}

TEST_F(Rescored, ALoadIsServedByWhatRunsSay) {
  RunRequest request = Request(Backend::kVllm);
  const auto result = RunRecommend(request, {.request_rate = 20}, false, *bench_);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_FALSE(result->results.empty());
  for (const ExperimentResult& experiment : result->results) {
    ASSERT_FALSE(experiment.best.empty()) << experiment.name;
    for (const PickedRow& picked : experiment.best) {
      ASSERT_TRUE(picked.row.score);
      EXPECT_GE(picked.row.score->seq_s * static_cast<double>(picked.pick.replicas_needed), 20);
      EXPECT_LT(picked.row.score->seq_s * static_cast<double>(picked.pick.replicas_needed - 1), 20);
    }
  }
}

TEST_F(Rescored, ReferenceBehaviourKeepsTheFormula) {
  RunRequest request = Request(Backend::kTrtllm);
  request.behaviour = Behaviour::kReference;
  const ExperimentsResult result = Run(request);
  ASSERT_FALSE(result.outcomes.empty());
  for (const ExperimentOutcome& outcome : result.outcomes) {
    ASSERT_FALSE(outcome.table.rows.empty()) << outcome.name;
    for (const TaskRow& row : outcome.table.rows) EXPECT_FALSE(row.score);
  }
}

}  // namespace
}  // namespace infercast
