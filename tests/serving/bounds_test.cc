// What bounds an operator: the rule, and the rooflines of a worker whose operators are known.
#include "serving/bounds.h"

#include <gtest/gtest.h>

#include "support/made_up_system.h"

namespace infercast {
namespace {

TEST(ClassifyBoundTest, TheLongerRooflineBounds) {
  const auto bound = [](double latency, double compute, double memory) {
    return ClassifyBound(OperatorRole::kWeights, latency, 10, 1, std::max(compute, memory), compute,
                         memory);
  };
  EXPECT_EQ(bound(20, 15, 2), Bound::kCompute);
  EXPECT_EQ(bound(20, 2, 15), Bound::kBandwidth);
  EXPECT_EQ(bound(20, 0.2, 0.1), Bound::kCompute);  // slow, but too long to be a launch
  EXPECT_EQ(bound(0, 0, 0), Bound::kNone);
}

TEST(ClassifyBoundTest, ShortCallsFarFromTheirRooflineAreLaunches) {
  const auto bound = [](double latency, double calls, int kernels, double memory) {
    return ClassifyBound(OperatorRole::kActivations, latency, calls, kernels, memory, 0, memory);
  };
  const double ten_calls = 10 * kLaunchMs;
  EXPECT_EQ(bound(ten_calls, 10, 1, 0.2 * ten_calls), Bound::kLaunch);
  EXPECT_EQ(bound(ten_calls, 10, 1, 0.3 * ten_calls), Bound::kBandwidth);
  EXPECT_EQ(bound(1.01 * ten_calls, 10, 1, 0.2 * ten_calls), Bound::kBandwidth);
  EXPECT_EQ(bound(1.01 * ten_calls, 10, 2, 0.2 * ten_calls), Bound::kLaunch);
  // Without a number of calls nothing is known of one call.
  EXPECT_EQ(bound(ten_calls, 0, 1, 0.2 * ten_calls), Bound::kBandwidth);
}

TEST(ClassifyBoundTest, LinksGoByKindAndMissingRooflinesAreNotGuessed) {
  EXPECT_EQ(ClassifyBound(OperatorRole::kCommunication, 1, 1, 1, 0.9, 0, 0.9),
            Bound::kCommunication);
  EXPECT_EQ(ClassifyBound(OperatorRole::kAttention, 1, 1, 1, 0, 0, 0), Bound::kUnknown);
  EXPECT_EQ(ClassifyBound(OperatorRole::kAttention, 1, 1, 1, 0.9, 0, 0), Bound::kUnknown);
  // Recurrent kernels have a roofline of traffic alone.
  EXPECT_EQ(ClassifyBound(OperatorRole::kState, 1, 1, 1, 0.9, 0, 0), Bound::kBandwidth);
}

Gemm Product(const char* name, std::uint32_t width) {
  Gemm gemm;
  gemm.name = name;
  gemm.scale_factor = 4;
  gemm.n = gemm.k = width;
  return gemm;
}

Nccl Exchange(const char* name, std::uint32_t width) {
  Nccl nccl;
  nccl.name = name;
  nccl.scale_factor = 4;
  nccl.operation = "all_gather";
  nccl.hidden_size = width;
  nccl.num_gpus = 8;
  return nccl;
}

// A worker that is priced at the speed of light itself, so that every bound is attained in full.
class RooflineTwinTest : public ::testing::Test {
 protected:
  std::vector<OperatorBound> BoundsOf(std::vector<Operator> ops, std::uint32_t tokens) {
    const testing::MadeUpSystem system(Backend::kTrtllm, "  mem_capacity: 80000000000\n");
    ModelPlan plan;
    plan.facts.hidden_size = 1024;
    plan.context_ops = std::move(ops);
    const auto worker = Worker::Create(std::move(plan), system.Open(DatabaseMode::kSol));
    if (!worker) throw std::runtime_error(worker.error().message);
    const auto twin = RooflineTwin::Of(**worker);
    if (!twin) throw std::runtime_error(twin.error().message);
    const auto price = [&](const Worker& w) {
      return w.engine().ExplainStatic({.isl = tokens}, StaticMode::kContext)->context;
    };
    priced_ = price(**worker);
    std::optional<Breakdown> members;
    if ((*twin)->members() != nullptr) members = price(*(*twin)->members());
    return (*twin)->Classify(priced_, price(*(*twin)->rooflines()), members ? &*members : nullptr,
                             PassKind::kContext, 1);
  }
  Breakdown priced_;
};

TEST_F(RooflineTwinTest, ManyTokensMakeAProductArithmeticAndFewMakeItTraffic) {
  // 1e14 operations/s over 1e12 bytes/s: 100 operations a byte of weights are even.
  const auto many = BoundsOf({Product("gemm", 4096)}, 4096);
  ASSERT_EQ(many.size(), 1U);
  EXPECT_EQ(many[0].bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(many[0].compute_ms, 4 * 2.0 * 4096 * 4096 * 4096 / 1e14 * 1e3);
  EXPECT_DOUBLE_EQ(*many[0].attained, 1.0);
  EXPECT_EQ(many[0].count, 4);
  const auto few = BoundsOf({Product("gemm", 4096)}, 4);
  EXPECT_EQ(few[0].bound, Bound::kBandwidth);
  EXPECT_EQ(few[0].role, OperatorRole::kWeights);
}

TEST_F(RooflineTwinTest, TheLongerGroupOfAnOverlapTells) {
  Overlap overlap;
  overlap.name = "side_by_side";
  overlap.group_a.emplace_back(Product("a", 512));
  overlap.group_b.emplace_back(Exchange("b", 65536));
  const auto links = BoundsOf({overlap, Product("gemm", 4096)}, 4096);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].bound, Bound::kCommunication);
  EXPECT_NEAR(*links[0].attained, 1.0, 1e-12);
  EXPECT_EQ(links[1].bound, Bound::kCompute);

  std::get<Gemm>(overlap.group_a[0].kind).n = 1U << 20;
  const auto arithmetic = BoundsOf({overlap}, 4096);
  EXPECT_EQ(arithmetic[0].bound, Bound::kCompute);
  EXPECT_NEAR(*arithmetic[0].attained, 1.0, 1e-12);
}

TEST_F(RooflineTwinTest, OperatorsOfOneNameAreOneEntry) {
  const auto bounds = BoundsOf({Product("gemm", 4096), Product("gemm", 2048)}, 4096);
  ASSERT_EQ(bounds.size(), 1U);
  EXPECT_EQ(bounds[0].count, 8);
  EXPECT_NEAR(*bounds[0].attained, 1.0, 1e-12);
}

}  // namespace
}  // namespace infercast
