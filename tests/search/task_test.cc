// Tasks: candidate lists, resolution, contradictions, targets.
#include "search/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "search/run_fixture.h"
#include "search/run_task.h"
#include "search/task_resolution.h"

namespace infercast {
namespace {

Task Aggregated(const char* model, const char* system, Backend backend, std::int64_t gpus) {
  Task task;
  task.worker.model = model;
  task.worker.system = system;
  task.worker.backend = backend;
  task.total_gpus = gpus;
  task.behaviour = Behaviour::kReference;
  return task;
}

Task Disaggregated(const char* model, const char* system, Backend backend, std::int64_t gpus) {
  Task task = Aggregated(model, system, backend, gpus);
  task.mode = ServingMode::kDisaggregated;
  task.prefill = task.decode = task.worker;
  task.worker = {};
  return task;
}

class TaskResolution : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
    bench_.emplace(data_->systems, data_->checkpoints);
  }
  ResolvedTask Resolve(const Task& task) {
    auto resolved = ResolveTask(task, *bench_);
    EXPECT_TRUE(resolved) << resolved.error().message;
    return resolved ? *std::move(resolved) : ResolvedTask();
  }
  std::size_t Count(const Task& task, std::size_t role = 0) {
    const ResolvedTask resolved = Resolve(task);
    return role < resolved.roles.size() ? resolved.roles[role].layouts.size() : 0;
  }
  ErrorKind KindOf(const Task& task) {
    auto resolved = ResolveTask(task, *bench_);
    if (!resolved) return resolved.error().kind;
    const Status valid = ValidateTask(*resolved);
    EXPECT_FALSE(valid);
    return valid ? ErrorKind::kInternal : valid.error().kind;
  }

  std::unique_ptr<testing::MeasuredSystems> data_;
  std::optional<Workbench> bench_;
};

TEST_F(TaskResolution, CountsLayoutsAsRecorded) {
  EXPECT_EQ(Count(Aggregated("Qwen/Qwen3-32B", "h200_sxm", Backend::kTrtllm, 32)), 4U);
  EXPECT_EQ(Count(Aggregated("Qwen/Qwen3-32B-FP8", "h200_sxm", Backend::kSglang, 8)), 10U);
  EXPECT_EQ(Count(Disaggregated("Qwen/Qwen3-32B-FP8", "h200_sxm", Backend::kSglang, 8), 1), 4U);
  EXPECT_EQ(Count(Aggregated("Qwen/Qwen3-32B", "gb200", Backend::kTrtllm, 32)), 5U);
  EXPECT_EQ(Count(Aggregated("Qwen/Qwen3-235B-A22B", "h200_sxm", Backend::kVllm, 16)), 29U);
  const char* v3 = "deepseek-ai/DeepSeek-V3";
  EXPECT_EQ(Count(Aggregated(v3, "h200_sxm", Backend::kTrtllm, 128)), 39U);
  EXPECT_EQ(Count(Disaggregated(v3, "h200_sxm", Backend::kTrtllm, 128), 0), 34U);
  EXPECT_EQ(Count(Disaggregated(v3, "h200_sxm", Backend::kTrtllm, 128), 1), 39U);
  EXPECT_EQ(Count(Aggregated(v3, "h200_sxm", Backend::kSglang, 128)), 315U);
  EXPECT_EQ(Count(Disaggregated(v3, "h200_sxm", Backend::kSglang, 128), 0), 220U);
  EXPECT_EQ(Count(Disaggregated(v3, "h200_sxm", Backend::kSglang, 128), 1), 105U);
  EXPECT_EQ(Count(Aggregated(v3, "gb200", Backend::kTrtllm, 128)), 39U);
}

TEST_F(TaskResolution, ReplicaSizesFollowLargeExpertParallelism) {
  const ResolvedTask dense =
      Resolve(Disaggregated("Qwen/Qwen3-32B", "h200_sxm", Backend::kTrtllm, 32));
  EXPECT_EQ(dense.replica.allowed_gpus, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32}));
  const ResolvedTask wide =
      Resolve(Disaggregated("deepseek-ai/DeepSeek-V3", "h200_sxm", Backend::kTrtllm, 128));
  EXPECT_TRUE(wide.replica.allowed_gpus.empty());
  EXPECT_EQ(wide.replica.max_gpus, 128);
}

TEST_F(TaskResolution, UserListsStayAndTheBudgetTrims) {
  Task task = Aggregated("Qwen/Qwen3-32B", "h200_sxm", Backend::kTrtllm, 2);
  task.worker.lists.tp = {4, 2, 1};
  const ResolvedTask resolved = Resolve(task);
  EXPECT_EQ(resolved.task.worker.lists.tp, (std::vector<std::int64_t>{4, 2, 1}));
  ASSERT_EQ(resolved.roles[0].layouts.size(), 2U);
  EXPECT_EQ(resolved.roles[0].layouts[0].tp, 2);
}

TEST_F(TaskResolution, RefusesContradictions) {
  const Task agg = Aggregated("Qwen/Qwen3-32B", "h200_sxm", Backend::kTrtllm, 8);
  const Task disagg = Disaggregated("Qwen/Qwen3-32B", "h200_sxm", Backend::kTrtllm, 8);
  const auto with = [](Task task, auto change) {
    change(task);
    return task;
  };
  const ErrorKind invalid = ErrorKind::kInvalidArgument;
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.worker.model.clear(); })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.worker.lists.cp = {2}; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.nextn = 2; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.epd.tp = {1}; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.attention_backend = "fa9"; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.moe_backend = "megamoe"; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.ttft = -1; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.memory_fraction = 1.5; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.worker.quant.gemm = GemmQuant::kSq; })), invalid);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.worker.system = "nosuch"; })),
            ErrorKind::kUnknownName);
  EXPECT_EQ(KindOf(with(agg, [](Task& t) { t.worker.model = "nosuch"; })), ErrorKind::kUnknownName);
  EXPECT_EQ(KindOf(with(disagg, [](Task& t) { t.worker.enable_eplb = true; })), invalid);
  EXPECT_EQ(KindOf(with(disagg, [](Task& t) { t.decode.model = "Qwen/Qwen3-8B"; })), invalid);
  EXPECT_EQ(KindOf(with(disagg, [](Task& t) { t.total_gpus = 1; })), invalid);
  EXPECT_EQ(KindOf(with(disagg, [](Task& t) { t.decode.lists.cp = {2}; })), invalid);
  EXPECT_EQ(KindOf(with(disagg, [](Task& t) { t.disagg.decode_degradation = 0; })), invalid);
  EXPECT_EQ(KindOf(Aggregated("deepseek-ai/DeepSeek-V4-Pro", "h200_sxm", Backend::kSglang, 8)),
            invalid);
}

TEST(TaskTargets, NativeKeepsTheUsersOwn) {
  Task task;
  task.ttft = 2000;
  task.tpot = 33;
  task.behaviour = Behaviour::kReference;
  EXPECT_EQ(TargetsOf(task)->size(), 75U);
  task.behaviour = Behaviour::kNative;
  const auto targets = TargetsOf(task);
  ASSERT_EQ(targets->size(), 76U);
  EXPECT_EQ((*targets)[22].tpot, 33);
  task.pareto_sweep = false;
  EXPECT_EQ(TargetsOf(task)->size(), 1U);
}

TEST(TaskTargets, RequestLatencyKeepsTheFirstTokenTarget) {
  Task task;
  task.ttft = 1000;
  task.request_latency = 12000;
  task.workload.osl = 500;
  task.behaviour = Behaviour::kReference;
  bool above = false;
  const auto reference = TargetsOf(task);
  ASSERT_TRUE(reference);
  for (const LatencyTarget& t : *reference) above = above || t.ttft > 1000;
  EXPECT_TRUE(above);
  task.behaviour = Behaviour::kNative;
  const auto targets = TargetsOf(task);
  ASSERT_FALSE(targets->empty());
  for (const LatencyTarget& t : *targets) EXPECT_LE(t.ttft, 1000);
  task.workload.osl = 1;
  EXPECT_EQ(TargetsOf(task).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
