// Single points: estimates behind encode workers, and pools that scale on their own.
#include <gtest/gtest.h>

#include <string>

#include "search/autoscale.h"
#include "search/estimate_point.h"
#include "search/run_fixture.h"

namespace infercast {
namespace {

class Points : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::MeasuredSystems::Find();
    if (data_ == nullptr) GTEST_SKIP() << "no measured data package";
    bench_.emplace(data_->systems, data_->checkpoints);
  }
  std::unique_ptr<testing::MeasuredSystems> data_;
  std::optional<Workbench> bench_;
};

EstimateRequest Images(EstimateMode mode) {
  EstimateRequest r;
  r.mode = mode;
  r.model = "Qwen/Qwen3-VL-8B-Instruct";
  r.system = "b200_sxm";
  r.backend = Backend::kVllm;
  r.workload = {.isl = 1500, .osl = 200};
  r.workload.image_height = 1000;
  r.workload.image_width = 750;
  r.workload.num_images = 2;
  r.batch = 32;
  r.behaviour = Behaviour::kReference;
  r.epd.enabled = true;
  r.encoder_tp = 1;
  return r;
}

TEST_F(Points, EncodersInFrontOfOneWorker) {
  const auto estimate = EstimatePoint(Images(EstimateMode::kAgg), *bench_);
  ASSERT_TRUE(estimate) << estimate.error().message;
  const AggregatedRow& row = *estimate->row->aggregated();
  ASSERT_TRUE(estimate->row->encoders);
  EXPECT_EQ(estimate->row->encoders->workers, 1);
  EXPECT_EQ(row.num_total_gpus, 2);
  EXPECT_NEAR(row.ttft, 121.4953293713104, 1e-6);
  EXPECT_NEAR(row.seq_s, 14.878208213612908, 1e-6);
}

TEST_F(Points, EncodersInFrontOfPools) {
  EstimateRequest r = Images(EstimateMode::kDisagg);
  r.prefill.batch = 1;
  r.prefill.workers = 3;
  r.decode.batch = 128;
  r.decode.workers = 1;
  r.encoder_workers = 2;
  const auto estimate = EstimatePoint(r, *bench_);
  ASSERT_TRUE(estimate) << estimate.error().message;
  EXPECT_EQ(estimate->row->disaggregated()->num_total_gpus, 6);
  r.decode.max_seq_len = 4096;
  EXPECT_EQ(EstimatePoint(r, *bench_).error().kind, ErrorKind::kInvalidArgument);
  r = Images(EstimateMode::kStatic);
  EXPECT_EQ(EstimatePoint(r, *bench_).error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(Points, MissingPoolSizesAreNamed) {
  EstimateRequest r;
  r.mode = EstimateMode::kDisagg;
  r.model = "Qwen/Qwen3-32B";
  r.system = "h200_sxm";
  r.prefill.batch = 1;
  const auto estimate = EstimatePoint(r, *bench_);
  ASSERT_FALSE(estimate);
  EXPECT_EQ(estimate.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(estimate.error().message.find("prefill_num_workers"), std::string::npos);
}

Task Pools() {
  Task task;
  task.mode = ServingMode::kDisaggregated;
  task.prefill.model = task.decode.model = "Qwen/Qwen3-32B-FP8";
  task.prefill.system = task.decode.system = "h200_sxm";
  task.prefill.backend = task.decode.backend = Backend::kSglang;
  task.total_gpus = 8;
  task.workload = {.isl = 3000, .osl = 300};
  task.ttft = 400;
  task.tpot = 25;
  return task;
}

TEST_F(Points, PoolsScaleOnTheirOwn) {
  const auto resolved = ResolveTask(Pools(), *bench_);
  ASSERT_TRUE(resolved) << resolved.error().message;
  const auto table = RunAutoscale(*resolved, {});
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_FALSE(table->rows.empty());
  EXPECT_LE(table->rows.size(), 5U);
  for (const TaskRow& row : table->rows) {
    const DisaggregatedRow& r = *row.disaggregated();
    EXPECT_EQ(r.prefill_workers, 1);
    EXPECT_EQ(r.decode_workers, 1);
    EXPECT_LE(r.ttft, 400);
    EXPECT_LE(r.tpot, 25);
    EXPECT_EQ(r.prefill.worker->layout.tp, r.decode.worker->layout.tp);
  }
  Task reference = Pools();
  reference.behaviour = Behaviour::kReference;
  const auto as_recorded = ResolveTask(reference, *bench_);
  ASSERT_TRUE(as_recorded);
  const auto recorded = RunAutoscale(*as_recorded, {});
  ASSERT_TRUE(recorded) << recorded.error().message;
  const double rates[] = {836.460, 711.360, 627.345, 613.769, 613.769};
  const double first[] = {193.680, 227.734, 193.680, 138.256, 147.037};
  ASSERT_EQ(recorded->rows.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(recorded->rows[i].disaggregated()->tokens_s_gpu, rates[i], 1e-9);
    EXPECT_NEAR(recorded->rows[i].disaggregated()->ttft, first[i], 1e-9);
  }
  Task aggregated;
  aggregated.worker = Pools().prefill;
  const auto other = ResolveTask(aggregated, *bench_);
  ASSERT_TRUE(other);
  EXPECT_EQ(RunAutoscale(*other, {}).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
