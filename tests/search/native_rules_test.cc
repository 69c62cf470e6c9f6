// What native searches promise: one definition of each figure, no row that does not fit, no target
// that loses rows, a total order, strict targets, fewest GPUs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "search/estimate_point.h"
#include "search/run_fixture.h"
#include "search/run_task.h"
#include "search/standard_runs.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;

class NativeRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
    bench_.emplace(data_->systems, data_->checkpoints);
  }

  static RunRequest Request(const char* model, std::optional<Backend> backend) {
    RunRequest r;
    r.model = model;
    r.system = "h200_sxm";
    r.backend = backend;
    r.workload.isl = 3000;
    r.workload.osl = 300;
    return r;
  }
  ExperimentsResult Run(const RunRequest& request, std::int64_t gpus) {
    auto result = RunDefault(request, gpus, *bench_);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *std::move(result) : ExperimentsResult();
  }

  std::unique_ptr<testing::MeasuredSystems> data_;
  std::optional<Workbench> bench_;
};

TEST_F(NativeRuns, EveryProposedWorkerHoldsItsKvCache) {
  for (const char* model : {"Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"}) {
    const ExperimentsResult result = Run(Request(model, std::nullopt), 8);
    EXPECT_EQ(result.outcomes.size(), 6U);
    for (const ExperimentOutcome& outcome : result.outcomes) {
      EXPECT_FALSE(outcome.table.rows.empty()) << outcome.name;
      for (const TaskRow& row : outcome.table.rows) {
        if (const AggregatedRow* r = row.aggregated()) {
          EXPECT_TRUE(r->verdict.fits());
        } else {
          EXPECT_TRUE(row.disaggregated()->fits());
        }
      }
    }
  }
}

TEST_F(NativeRuns, FiguresHaveOneDefinition) {
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kSglang);
  const ExperimentsResult result = Run(r, 8);
  bool split_context = false;
  for (const ExperimentOutcome& outcome : result.outcomes) {
    for (const TaskRow& row : outcome.table.rows) {
      const PickRow figures = PickRowOf(row);
      double tokens_s = 0;
      std::int64_t gpus = 0;
      if (const AggregatedRow* a = row.aggregated()) {
        tokens_s = a->tokens_s;
        const ParallelLayout& l = a->worker->layout;
        gpus = l.tp * l.pp * l.dp * l.cp;
        split_context = split_context || l.cp > 1;
      } else {
        const DisaggregatedRow& d = *row.disaggregated();
        tokens_s = d.tokens_s;
        const ParallelLayout& p = d.prefill.worker->layout;
        const ParallelLayout& q = d.decode.worker->layout;
        gpus = p.tp * p.pp * p.dp * p.cp * d.prefill_workers +
               q.tp * q.pp * q.dp * q.cp * d.decode_workers;
      }
      EXPECT_EQ(figures.num_total_gpus, gpus);
      EXPECT_NEAR(tokens_s, figures.seq_s * 300, 1e-9 * tokens_s);
      EXPECT_NEAR(figures.tokens_s_gpu, tokens_s / static_cast<double>(gpus), 1e-9 * tokens_s);
    }
  }
  EXPECT_TRUE(split_context);
}

TEST_F(NativeRuns, SingleOutputTokensHaveARate) {
  EstimateRequest r;
  r.model = "Qwen/Qwen3-32B";
  r.system = "h200_sxm";
  r.workload.isl = 1000;
  r.workload.osl = 1;
  r.batch = 8;
  const auto estimate = EstimatePoint(r, *bench_);
  ASSERT_TRUE(estimate) << estimate.error().message;
  const AggregatedRow& row = *estimate->row->aggregated();
  EXPECT_GT(row.seq_s, 0);
  EXPECT_DOUBLE_EQ(row.tokens_s, row.seq_s);
}

TEST_F(NativeRuns, TargetsBetweenGridValuesLoseNoRow) {
  // With a target of its own in the sweep, the best row under 33 ms is at least as good as
  // under 30.
  double before = 0;
  for (const double tpot : {30.0, 33.0, 35.0, 400.0}) {
    RunRequest r = Request("Qwen/Qwen3-32B", Backend::kVllm);
    r.tpot = tpot;
    const ExperimentsResult result = Run(r, 8);
    double best = 0;
    for (const ExperimentOutcome& outcome : result.outcomes) {
      EXPECT_FALSE(outcome.pick.exceeded);
      best = std::max(best, outcome.pick.best_value);
      for (const Pick& pick : outcome.pick.best) {
        EXPECT_LE(PickRowOf(outcome.table.rows[pick.row]).tpot, tpot);
      }
    }
    EXPECT_GE(best, before);
    before = best;
  }
}

TEST_F(NativeRuns, RequestLatencyKeepsTheFirstTokenTarget) {
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kTrtllm);
  r.request_latency = 12000;
  r.ttft = 600;
  for (const ExperimentOutcome& outcome : Run(r, 8).outcomes) {
    EXPECT_FALSE(outcome.table.rows.empty());
    for (const TaskRow& row : outcome.table.rows) {
      EXPECT_LE(PickRowOf(row).ttft, 600);
      EXPECT_LE(PickRowOf(row).request_latency, 12000 * (1 + 1e-9));
    }
  }
}

TEST_F(NativeRuns, ImpossibleTargetsSayWhatIsNearest) {
  RunRequest r = Request("Qwen/Qwen3-32B", Backend::kVllm);
  r.ttft = 5;
  const auto result = RunDefault(r, 8, *bench_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kNoFeasibleConfig);
  EXPECT_THAT(result.error().message, HasSubstr("ttft"));
  EXPECT_THAT(result.error().message, HasSubstr("> 5 ms"));
  EXPECT_THAT(result.error().message, HasSubstr("(target 5)"));
}

TEST_F(NativeRuns, ModelsTooLargeAreDoesNotFit) {
  RunRequest r = Request("meta-llama/Meta-Llama-3.1-70B", Backend::kVllm);
  r.system = "l40s";
  const auto result = RunDefault(r, 1, *bench_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kDoesNotFit);
}

TEST_F(NativeRuns, RowsAreTotallyOrdered) {
  for (const ExperimentOutcome& outcome :
       Run(Request("Qwen/Qwen3-32B", Backend::kTrtllm), 16).outcomes) {
    for (std::size_t i = 1; i < outcome.table.rows.size(); ++i) {
      const PickRow a = PickRowOf(outcome.table.rows[i - 1]);
      const PickRow b = PickRowOf(outcome.table.rows[i]);
      ASSERT_GE(a.tokens_s_gpu, b.tokens_s_gpu);
      if (a.tokens_s_gpu > b.tokens_s_gpu) continue;
      ASSERT_LE(a.tpot, b.tpot);
      if (a.tpot == b.tpot) {
        ASSERT_LE(a.ttft, b.ttft);
      }
    }
  }
}

TEST_F(NativeRuns, ThreadsDoNotChangeAnything) {
  const auto text = [](const ExperimentsResult& result) {
    std::string all = result.chosen;
    for (const ExperimentOutcome& outcome : result.outcomes) {
      for (const TaskRow& row : outcome.table.rows) {
        const PickRow r = PickRowOf(row);
        all += fmt::format("{} {} {} {} {} {} {} {}\n", r.group, r.ttft, r.tpot, r.tokens_s_gpu,
                           r.tokens_s_user, r.seq_s, r.concurrency, r.num_total_gpus);
      }
    }
    return all;
  };
  const RunRequest r = Request("Qwen/Qwen3-30B-A3B", Backend::kVllm);
  Workbench many(data_->systems, data_->checkpoints);
  const auto parallel = RunDefault(r, 8, many);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  Workbench fresh(data_->systems, data_->checkpoints);
  const auto serial = RunDefault(r, 8, fresh);
  ASSERT_TRUE(parallel && serial);
  EXPECT_EQ(text(*parallel), text(*serial));
}

TEST_F(NativeRuns, LoadIsServedByTheFewestGpusOfAnyBackend) {
  RunRequest r = Request("Qwen/Qwen3-8B", std::nullopt);
  r.workload.isl = 1000;
  r.workload.osl = 100;
  const LoadTarget load{.request_rate = 60};
  const auto all = RunRecommend(r, load, false, *bench_);
  ASSERT_TRUE(all) << all.error().message;
  std::int64_t fewest = 1 << 20;
  for (const Backend backend : {Backend::kTrtllm, Backend::kSglang, Backend::kVllm}) {
    r.backend = backend;
    const auto single = RunRecommend(r, load, false, *bench_);
    ASSERT_TRUE(single);
    for (const ExperimentResult& result : single->results) {
      fewest = std::min(fewest, result.best.at(0).pick.total_gpus_needed);
    }
  }
  const PickedRow& chosen = all->Find(all->chosen)->best.at(0);
  EXPECT_EQ(chosen.pick.total_gpus_needed, fewest);
  EXPECT_GE(PickRowOf(chosen.row).seq_s * static_cast<double>(chosen.pick.replicas_needed), 60);
}

TEST_F(NativeRuns, StrictLoadsRefuseRowsThatMissTheTarget) {
  RunRequest r = Request("Qwen/Qwen3-32B", Backend::kVllm);
  r.tpot = 0.5;
  const LoadTarget load{.concurrency = 100};
  const auto nearest = RunRecommend(r, load, false, *bench_);
  ASSERT_TRUE(nearest) << nearest.error().message;
  EXPECT_TRUE(nearest->Find(nearest->chosen)->exceeded);
  r.strict = true;
  const auto strict = RunRecommend(r, load, false, *bench_);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::kNoFeasibleConfig);
}

TEST_F(NativeRuns, ReplicasOfOddSizesServeLoads) {
  // Three prefill and two decode workers of one GPU are five GPUs: a size that no list names.
  RunRequest r = Request("Qwen/Qwen3-32B-FP8", Backend::kTrtllm);
  r.workload.osl = 200;
  r.modes = {ServingMode::kDisaggregated};
  const auto result = RunRecommend(r, {.request_rate = 4}, false, *bench_);
  ASSERT_TRUE(result) << result.error().message;
  bool odd = false;
  for (const TaskRow& row : result->outcomes.at(0).table.rows) {
    const std::int64_t gpus = PickRowOf(row).num_total_gpus;
    EXPECT_LE(gpus, 8);
    odd = odd || (gpus & (gpus - 1)) != 0;
  }
  EXPECT_TRUE(odd);
}

TEST_F(NativeRuns, UnknownAndUnmeasuredAreToldApart) {
  RunRequest r = Request("Qwen/Qwen3-32B", Backend::kVllm);
  r.system = "nosuch";
  EXPECT_EQ(RunDefault(r, 8, *bench_).error().kind, ErrorKind::kUnknownName);
  r.system = "l4";
  EXPECT_EQ(RunDefault(r, 8, *bench_).error().kind, ErrorKind::kPerfDatabase);
  r.system = "h200_sxm";
  EXPECT_EQ(RunDefault(r, 0, *bench_).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(RunRecommend(r, {}, false, *bench_).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
