// Encode workers of Qwen3-VL-8B on H200 GPUs against recorded ones, and what a pool adds to a row.
#include "serving/encoder_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

Workload TwoImages() {
  Workload workload;
  workload.isl = 1500;
  workload.osl = 200;
  workload.num_images = 2;
  workload.image_height = 1000;
  workload.image_width = 750;
  return workload;
}

class EncodeWorkersOnH200 : public ::testing::Test {
 protected:
  void SetUp() override {
    DeploymentRequest request;
    request.model = "Qwen/Qwen3-VL-8B-Instruct";
    request.system = "h200_sxm";
    request.backend = Backend::kVllm;
    request.behaviour = Behaviour::kReference;
    request.build.language_only = true;
    const auto deployment = testing::OpenDeployment(request);
    ASSERT_TRUE(deployment) << deployment.error().message;
    deployment_ = *deployment;
    const auto plan = deployment_->Plan({});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(plan->vision);
    EXPECT_TRUE(plan->encoder_ops.empty());
    vision_ = *plan->vision;
    request_.vision = &vision_;
    request_.backend = Backend::kVllm;
    request_.tp = {8, 4, 2, 1, 1};
    request_.batch = {1, 2, 4, 8};
  }
  Result<std::vector<EncodeWorker>> Evaluate(const Workload& workload) const {
    return EvaluateEncodeWorkers(request_, deployment_->database(), workload);
  }

  std::shared_ptr<const Deployment> deployment_;
  VisionFacts vision_;
  EncodeRequest request_;
};

TEST_F(EncodeWorkersOnH200, AreTheOnesThatRaiseTheRate) {
  const auto workers = Evaluate(TwoImages());
  ASSERT_TRUE(workers) << workers.error().message;
  struct Row {
    std::int64_t tp, bs;
    double latency;
  };
  const Row expected[] = {{1, 1, 15.058}, {1, 4, 56.69},  {2, 1, 11.857}, {2, 2, 22.188},
                          {2, 4, 42.639}, {2, 8, 82.093}, {4, 1, 9.583},  {4, 2, 17.579},
                          {4, 4, 32.5},   {4, 8, 62.98},  {8, 1, 7.858},  {8, 2, 13.771},
                          {8, 4, 25.979}, {8, 8, 48.372}};
  ASSERT_EQ(workers->size(), std::size(expected));
  for (std::size_t i = 0; i < workers->size(); ++i) {
    EXPECT_EQ((*workers)[i].tp, expected[i].tp) << i;
    EXPECT_EQ((*workers)[i].bs, expected[i].bs) << i;
    EXPECT_DOUBLE_EQ((*workers)[i].latency, expected[i].latency) << i;
  }
  EXPECT_NEAR((*workers)[0].seq_s, 66.409916, 1e-6);
  EXPECT_NEAR((*workers)[1].seq_s, 70.558717, 1e-6);
  EXPECT_DOUBLE_EQ((*workers)[0].memory, 1.145);
}

TEST_F(EncodeWorkersOnH200, CorrectionScalesTheirTime) {
  request_.tp = {1};
  request_.batch = {1};
  const auto plain = Evaluate(TwoImages());
  request_.latency_correction = 2;
  const auto slow = Evaluate(TwoImages());
  ASSERT_TRUE(plain && slow);
  EXPECT_NEAR((*slow)[0].seq_s * 2, (*plain)[0].seq_s, 1e-9);
}

TEST_F(EncodeWorkersOnH200, RefuseWhatCannotBe) {
  Workload text;
  EXPECT_EQ(Evaluate(text).error().kind, ErrorKind::kInvalidArgument);
  request_.batch = {9};
  EXPECT_EQ(Evaluate(TwoImages()).error().kind, ErrorKind::kInvalidArgument);
  request_.batch = {0};
  EXPECT_EQ(Evaluate(TwoImages()).error().kind, ErrorKind::kInvalidArgument);
  request_.batch = {1};
  request_.tp = {0};
  EXPECT_EQ(Evaluate(TwoImages()).error().kind, ErrorKind::kInvalidArgument);
  request_.tp = {3};  // does not divide the encoder's heads: skipped
  EXPECT_EQ(Evaluate(TwoImages()).error().kind, ErrorKind::kNoFeasibleConfig);
}

EncodeStage Stage() {
  EncodeStage stage;
  stage.worker = {.tp = 2,
                  .bs = 4,
                  .latency = 10,
                  .seq_s = 5,
                  .memory = 1,
                  .power_w = 400,
                  .power_coverage = 1};
  stage.workers = 3;
  return stage;
}

TEST(EncodeStages, LengthenTheFirstTokenAndCapTheRate) {
  AggregatedRow row;
  row.osl = 11;
  row.ttft = 100;
  row.tpot = 20;
  row.request_latency = 300;
  row.seq_s = 27;
  row.request_rate = 27;
  row.tokens_s = 270;
  row.num_total_gpus = 4;
  row.power_w = 100;
  row.power_coverage = 0.5;
  row.concurrency = 64;
  AddEncodeStage(Stage(), row);
  EXPECT_DOUBLE_EQ(row.ttft, 110);
  EXPECT_DOUBLE_EQ(row.request_latency, 310);
  EXPECT_DOUBLE_EQ(row.encoder_latency, 10);
  EXPECT_DOUBLE_EQ(row.seq_s, 13.5);  // three workers of 5 per second, a tenth lost
  EXPECT_DOUBLE_EQ(row.request_rate, 13.5);
  EXPECT_DOUBLE_EQ(row.tokens_s, 135);
  EXPECT_EQ(row.num_total_gpus, 10);
  EXPECT_DOUBLE_EQ(row.tokens_s_gpu, 13.5);
  EXPECT_DOUBLE_EQ(row.power_w, (400 * 10 + 100 * 300) / 310.0);
  EXPECT_DOUBLE_EQ(row.power_coverage, (10 + 0.5 * 300) / 310.0);
  EXPECT_DOUBLE_EQ(row.concurrency, 64);
}

TEST(EncodeStages, QueueInFrontOfPools) {
  DisaggregatedRow row;
  row.osl = 11;
  row.ttft = 100;
  row.tpot = 20;
  row.request_latency = 300;
  row.seq_s = 2;
  row.tokens_s = 22;
  row.num_total_gpus = 4;
  row.prefill.power_w = 200;
  row.decode.power_w = 100;
  EncodeStage stage = Stage();
  stage.queueing = 1.8;
  AddEncodeStage(stage, row);
  EXPECT_DOUBLE_EQ(row.ttft, 118);
  EXPECT_DOUBLE_EQ(row.encoder_latency, 10);
  EXPECT_DOUBLE_EQ(row.seq_s, 2);  // not the bottleneck
  EXPECT_DOUBLE_EQ(row.seq_s_gpu, 0.2);
  EXPECT_DOUBLE_EQ(row.power_w, (400 * 18 + 200 * 100 + 100 * 200) / 318.0);
}

}  // namespace
}  // namespace infercast
