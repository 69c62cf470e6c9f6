// Aggregated and static figures of Qwen3-32B on H200 GPUs against recorded ones, on all backends.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

Result<std::shared_ptr<const Worker>> Qwen32(Backend backend) {
  DeploymentRequest request;
  request.model = "Qwen/Qwen3-32B";
  request.system = "h200_sxm";
  request.backend = backend;
  request.behaviour = Behaviour::kReference;
  IC_ASSIGN(const auto deployment, testing::OpenDeployment(request));
  ParallelLayout layout;
  layout.tp = 2;
  return deployment->MakeWorker(layout);
}

struct Expected {
  Backend backend;
  std::int64_t batch, ctx;
  double ttft, tpot, tokens_s, request_rate, memory;
};

class AggregatedExamples : public ::testing::TestWithParam<Expected> {};

TEST_P(AggregatedExamples, MatchRecordedFigures) {
  const Expected& e = GetParam();
  const auto worker = Qwen32(e.backend);
  ASSERT_TRUE(worker) << worker.error().message;
  Workload workload;
  workload.isl = 4000;
  workload.osl = 500;
  const auto row = EvaluateAggregated(**worker, workload, e.batch, e.ctx, {});
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_NEAR(row->ttft, e.ttft, e.ttft * 1e-9);
  EXPECT_NEAR(row->tpot, e.tpot, e.tpot * 1e-9);
  EXPECT_NEAR(row->tokens_s, e.tokens_s, e.tokens_s * 1e-9);
  EXPECT_NEAR(row->request_rate, e.request_rate, e.request_rate * 1e-9);
  EXPECT_NEAR(row->memory.total, e.memory, e.memory * 1e-9);
  EXPECT_TRUE(row->verdict.fits());
}

INSTANTIATE_TEST_SUITE_P(
    Qwen32, AggregatedExamples,
    ::testing::Values(Expected{Backend::kTrtllm, 1, 4000, 419.20600727935533, 10.852696939097125,
                               88.53591995855918, 0.17742669330372582, 35.707275390625},
                      Expected{Backend::kTrtllm, 16, 4000, 596.9735462159897, 20.006230245603216,
                               751.8658538324465, 1.5067451980610151, 43.947021484375},
                      Expected{Backend::kTrtllm, 64, 8192, 1571.004292630561, 45.82166509410777,
                               1322.9791522718315, 2.651260826196055, 70.314208984375},
                      Expected{Backend::kTrtllm, 16, 1024, 1093.0535846073335, 20.990610096984096,
                               750.5677603277583, 1.5041438082720606, 43.947021484375},
                      Expected{Backend::kTrtllm, 8, 16000, 1627.2359573185063, 14.380063912572735,
                               498.3688239526908, 0.9987351181416649, 39.552490234375},
                      Expected{Backend::kVllm, 1, 4000, 268.13580682116805, 10.806990865003206,
                               88.14970719784266, 0.17665271983535602, 35.29150390625},
                      Expected{Backend::kVllm, 16, 4000, 407.6956300979217, 20.089139578238356,
                               765.3244908814356, 1.5337164145920554, 43.532737731933594},
                      Expected{Backend::kVllm, 64, 8192, 920.0138434355717, 49.184747661645446,
                               1254.2019985491468, 2.5134308588159255, 70.32025909423828},
                      Expected{Backend::kVllm, 16, 1024, 475.493104099285, 20.13727488614822,
                               758.6473873015681, 1.5203354454941245, 43.237571716308594},
                      Expected{Backend::kVllm, 8, 16000, 1284.4400551425902, 15.432431073525521,
                               444.2850142444801, 0.890350729948858, 40.327301025390625},
                      Expected{Backend::kSglang, 1, 4000, 434.5616056717602, 10.397406727565881,
                               92.11702398509293, 0.18460325447914414, 36.19139404296875},
                      Expected{Backend::kSglang, 16, 4000, 614.332229661064, 18.335073135886535,
                               814.0292146227333, 1.6313210713882431, 44.43337745666504},
                      Expected{Backend::kSglang, 64, 8192, 1744.225862084597, 47.77289667996819,
                               1264.2989880374953, 2.533665306688367, 71.43268241882325},
                      Expected{Backend::kSglang, 16, 1024, 1126.6650975985576, 19.580641473418424,
                               802.9908174997637, 1.6092000350696667, 43.98949317932129},
                      Expected{Backend::kSglang, 8, 16000, 1856.251641350232, 13.38986931596578,
                               522.9601578346907, 1.0480163483661136, 41.82706146240235}));

TEST(StaticExamples, MatchRecordedFigures) {
  struct Row {
    Backend backend;
    StaticMode mode;
    double tpot, seq_s, memory;
  };
  const Row rows[] = {
      {Backend::kTrtllm, StaticMode::kBoth, 12.725615172121218, 0.9952467026865487,
       41.913818359375},
      {Backend::kVllm, StaticMode::kGeneration, 11.942301934657218, 1.3424601233477929,
       38.808349609375},
      {Backend::kSglang, StaticMode::kContext, 0.0, 4.396797902931053, 43.725634765625},
  };
  Workload workload;
  workload.isl = 4000;
  workload.osl = 500;
  for (const Row& e : rows) {
    const auto worker = Qwen32(e.backend);
    ASSERT_TRUE(worker) << worker.error().message;
    const auto row = EvaluateStatic(**worker, workload, 8, e.mode, {});
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_NEAR(row->tpot, e.tpot, e.tpot * 1e-9);
    EXPECT_NEAR(row->seq_s, e.seq_s, e.seq_s * 1e-9);
    EXPECT_NEAR(row->memory.total, e.memory, e.memory * 1e-9);
  }
}

TEST(StaticExamples, ImpossibleSizesAreRefused) {
  const auto worker = Qwen32(Backend::kVllm);
  ASSERT_TRUE(worker) << worker.error().message;
  Workload workload;
  workload.isl = 0;
  EXPECT_EQ(EvaluateStatic(**worker, workload, 1, StaticMode::kBoth, {}).error().kind,
            ErrorKind::kInvalidArgument);
  workload.isl = 100;
  EXPECT_EQ(EvaluateAggregated(**worker, workload, 0, 100, {}).error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(EvaluateAggregated(**worker, workload, 4, 0, {}).error().kind,
            ErrorKind::kInvalidArgument);
  workload.osl = std::int64_t{1} << 40;
  EXPECT_EQ(EvaluateAggregated(**worker, workload, 4, 100, {}).error().kind,
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
