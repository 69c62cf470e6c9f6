// Attention/FFN disaggregation: classification of operators, pipeline arithmetic, what crosses the
// network, and recorded figures of Qwen3-235B-A22B on two H200 nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/rounding.h"
#include "serving/afd_communication.h"
#include "serving/afd_partition.h"
#include "serving/afd_simulation.h"
#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

template <typename Kind = Gemm>
Operator Named(std::string name) {
  Kind op;
  op.name = std::move(name);
  return op;
}

TEST(AfdPartition, FollowsNamesInOrderOfPrecedence) {
  struct Case {
    const char* name;
    std::optional<AfdSide> side;  // with the boundary on the attention side
  };
  const Case cases[] = {
      {"context_embedding", AfdSide::kAttention},
      {"generation_qkv_gemm", AfdSide::kAttention},
      {"generation_proj_gemm", AfdSide::kAttention},
      {"context_down_proj_gemm", AfdSide::kFfn},
      {"context_ffn2_gemm", AfdSide::kFfn},
      {"generation_router_gemm", AfdSide::kFfn},
      {"generation_moe", AfdSide::kFfn},
      {"generation_moe_pre_dispatch", std::nullopt},  // communication before experts
      {"context_embedding_ar", std::nullopt},         // and before attention
      {"generation_add_norm_2", AfdSide::kAttention},
      {"generation_LOGITS_GEMM", AfdSide::kAttention},
      {"context_moe_combine", AfdSide::kAttention},  // boundary before experts
  };
  for (const Case& c : cases) {
    const auto side = SideOf(Named(c.name), true);
    ASSERT_TRUE(side) << c.name;
    EXPECT_EQ(*side, c.side) << c.name;
  }
}

TEST(AfdPartition, BoundaryGoesToTheSideOfChoice) {
  EXPECT_EQ(*SideOf(Named("generation_add_norm_2"), false), AfdSide::kFfn);
  EXPECT_EQ(*SideOf(Named("generation_logits_gemm"), false), AfdSide::kFfn);
  EXPECT_EQ(*SideOf(Named("generation_add_norm_1"), false), AfdSide::kAttention);
}

TEST(AfdPartition, CollectivesAreSkippedWhateverTheirName) {
  EXPECT_EQ(*SideOf(Named<Nccl>("moe"), true), std::nullopt);
  EXPECT_EQ(*SideOf(Named<CustomAllReduce>("attention"), true), std::nullopt);
  EXPECT_EQ(*SideOf(Named<P2P>("attention"), true), std::nullopt);
}

TEST(AfdPartition, RefusesWhatItCannotPlace) {
  EXPECT_EQ(SideOf(Named("context_mamba_norm"), true).error().kind, ErrorKind::kUnsupportedModel);
  EXPECT_EQ(SideOf(Named("context_something"), true).error().kind, ErrorKind::kUnsupportedModel);
}

TEST(AfdPartition, KeepsOverlappedGroupsWhole) {
  Overlap overlap;
  overlap.name = "generation_overlap";
  overlap.group_a = {Named("generation_moe"), Named("generation_moe_dispatch")};
  overlap.group_b = {Named("generation_shared_gate_up_gemm")};
  EXPECT_EQ(*SideOf(Operator(overlap), true), AfdSide::kFfn);

  overlap.group_b = {Named("generation_qkv_gemm")};
  EXPECT_EQ(SideOf(Operator(overlap), true).error().kind, ErrorKind::kUnsupportedModel);

  overlap.group_a = {Named("generation_moe_dispatch")};
  overlap.group_b = {};
  EXPECT_EQ(SideOf(Operator(overlap), true).error().kind, ErrorKind::kUnsupportedModel);

  Overlap outer;
  outer.name = "x";
  overlap.group_a = {Named("generation_moe")};
  outer.group_a = {Operator(overlap)};
  EXPECT_EQ(*SideOf(Operator(outer), true), AfdSide::kFfn);
  outer.group_a.clear();
  outer.name = "generation_mlp_overlap";  // without members its own name tells
  EXPECT_EQ(*SideOf(Operator(outer), true), AfdSide::kFfn);
}

TEST(AfdPartition, PositionsFollowTheList) {
  const std::vector<Operator> ops = {Named("context_qkv_gemm"), Named<Nccl>("context_ar"),
                                     Named("context_moe"), Named("context_add_norm_2")};
  const auto on_attention = PartitionOperators(ops, true);
  ASSERT_TRUE(on_attention);
  EXPECT_THAT(on_attention->attention, ::testing::ElementsAre(0, 3));
  EXPECT_THAT(on_attention->ffn, ::testing::ElementsAre(2));
  const auto on_ffn = PartitionOperators(ops, false);
  ASSERT_TRUE(on_ffn);
  EXPECT_THAT(on_ffn->attention, ::testing::ElementsAre(0));
  EXPECT_THAT(on_ffn->ffn, ::testing::ElementsAre(2, 3));
}

TEST(AfdPipelines, HideWhatTheyCan) {
  AfdSchedule schedule;
  schedule.micro_batches = 3;
  schedule.pipeline = AfdPipeline::kSerial;
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 1, 2).ms, 13);
  EXPECT_FALSE(CycleOf(schedule, 4, 6, 1, 2).transfers_hidden);
  schedule.pipeline = AfdPipeline::kConservative;
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 1, 2).ms, 8);
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 8, 6, 1, 2).ms, 9);
  schedule.pipeline = AfdPipeline::kOptimistic;
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 1, 2).ms, 6);
  EXPECT_TRUE(CycleOf(schedule, 4, 6, 1, 2).transfers_hidden);
  // Transfers as long as a turn need a third micro-batch; longer ones need more.
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 3, 3).ms, 6);
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 3, 4).ms, 10);
  EXPECT_FALSE(CycleOf(schedule, 4, 6, 3, 4).transfers_hidden);
  schedule.micro_batches = 4;
  EXPECT_DOUBLE_EQ(CycleOf(schedule, 4, 6, 3, 4).ms, 7);
  EXPECT_FALSE(CycleOf(schedule, 4, 6, 3, 4).transfers_hidden);
}

TEST(AfdSchedules, SpreadTheBatchOverMicroBatches) {
  EXPECT_EQ((AfdSchedule{96, 3, {}}).MicroBatch(), 32);
  EXPECT_EQ((AfdSchedule{97, 3, {}}).MicroBatch(), 33);
  EXPECT_EQ((AfdSchedule{1, 3, {}}).MicroBatch(), 1);
  EXPECT_FALSE(CheckAfdSchedule({0, 3, {}}));
  EXPECT_FALSE(CheckAfdSchedule({96, 0, {}}));
  EXPECT_TRUE(CheckAfdSchedule({96, 3, {}}));
}

TEST(AfdLayouts, AreChecked) {
  AfdLayout layout;
  layout.attention_tp = 4;
  layout.expert_parallel = 2;
  layout.ffn_nodes = 2;
  EXPECT_TRUE(CheckAfdLayout(layout));
  EXPECT_EQ(layout.AttentionWorkers(), 2);
  EXPECT_EQ(layout.NumGpus(), 24);
  EXPECT_EQ(layout.Text(), "a1n-tp4+f2n-ep2");
  EXPECT_EQ(layout.FfnParallel().moe_tp, 8);
  const auto refused = [&](auto change) {
    AfdLayout wrong = layout;
    change(wrong);
    const Status status = CheckAfdLayout(wrong);
    return !status && status.error().kind == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](AfdLayout& l) { l.attention_nodes = 0; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.ffn_nodes = 0; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.gpus_per_node = 0; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.attention_tp = 3; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.expert_parallel = 3; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.comm_overhead = 0; }));
  EXPECT_TRUE(refused([](AfdLayout& l) { l.comm_overhead = NAN; }));
}

TEST(AfdTraffic, TokensGoWhereTheirExpertsAre) {
  EXPECT_DOUBLE_EQ(SendProbability(1, 128, 8), 1);
  EXPECT_DOUBLE_EQ(SendProbability(4, 0, 0), 0.25);  // dense: tokens are spread
  EXPECT_DOUBLE_EQ(SendProbability(4, 2, 1), 0.25);  // fewer experts than nodes
  EXPECT_DOUBLE_EQ(SendProbability(2, 4, 3), 1);     // more choices than the other node has
  // C(6, 2) / C(8, 2) = 15 / 28 of the choices avoid one of four nodes with two experts.
  EXPECT_DOUBLE_EQ(SendProbability(4, 8, 2), 1 - 15.0 / 28.0);
}

class AfdOnH200 : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto root = testing::SystemsRoot();
    if (!root) return;
    DeploymentRequest request;
    request.model = "Qwen/Qwen3-235B-A22B";
    request.system = "h200_sxm";
    request.backend = Backend::kVllm;
    request.version = "0.24.0";
    request.behaviour = Behaviour::kReference;
    const auto deployment = testing::OpenDeployment(request);
    ASSERT_TRUE(deployment) << deployment.error().message;
    AfdLayout layout;
    layout.expert_parallel = 8;
    const auto attention = (*deployment)->MakeWorker(layout.AttentionParallel());
    ASSERT_TRUE(attention) << attention.error().message;
    const auto ffn = (*deployment)->MakeWorker(layout.FfnParallel());
    ASSERT_TRUE(ffn) << ffn.error().message;
    const auto afd = AfdDeployment::Create(*attention, *ffn, layout);
    ASSERT_TRUE(afd) << afd.error().message;
    afd_ = *afd;
  }
  static void TearDownTestSuite() { afd_.reset(); }
  void SetUp() override {
    ASSERT_TRUE(afd_) << "no measured data: run infercast data fetch";
    workload_.isl = 4000;
    workload_.osl = 500;
  }

  static std::shared_ptr<const AfdDeployment> afd_;
  Workload workload_;
};
std::shared_ptr<const AfdDeployment> AfdOnH200::afd_;

TEST_F(AfdOnH200, DecodeMatchesRecordedFigures) {
  struct Row {
    AfdPipeline pipeline;
    double step, tokens_s;
  };
  for (const Row& e : {Row{AfdPipeline::kOptimistic, 76.356, 10058.19},
                       Row{AfdPipeline::kConservative, 80.639, 9523.94},
                       Row{AfdPipeline::kSerial, 123.507, 6218.25}}) {
    const auto row = afd_->Evaluate(workload_, {96, 3, e.pipeline}, AfdPhase::kDecode, {});
    ASSERT_TRUE(row) << row.error().message;
    ASSERT_TRUE(row->decode);
    EXPECT_FALSE(row->prefill);
    EXPECT_DOUBLE_EQ(row->decode->attention, 0.137);
    EXPECT_DOUBLE_EQ(row->decode->ffn, 0.27);
    EXPECT_DOUBLE_EQ(row->decode->to_ffn, 0.015);
    EXPECT_DOUBLE_EQ(row->decode->balance_ratio, 0.508);
    EXPECT_DOUBLE_EQ(row->decode->step, e.step);
    EXPECT_DOUBLE_EQ(row->tpot, e.step);
    EXPECT_DOUBLE_EQ(row->tokens_s, e.tokens_s);
    EXPECT_DOUBLE_EQ(row->ttft, 0);
    EXPECT_DOUBLE_EQ(RoundDecimal(row->attention_memory.usage.total, 2), 95.82);
    EXPECT_DOUBLE_EQ(RoundDecimal(row->ffn_memory.usage.total, 2), 56.92);
    EXPECT_EQ(row->total_batch, 768);
    EXPECT_EQ(row->micro_batch_total, 256);
    EXPECT_EQ(row->num_total_gpus, 16);
    EXPECT_TRUE(row->fits());
  }
}

TEST_F(AfdOnH200, PrefillMatchesRecordedFigures) {
  struct Row {
    AfdPipeline pipeline;
    double step;
  };
  for (const Row& e :
       {Row{AfdPipeline::kOptimistic, 23376.755}, Row{AfdPipeline::kConservative, 25349.018},
        Row{AfdPipeline::kSerial, 31678.596}}) {
    const auto row = afd_->Evaluate(workload_, {96, 3, e.pipeline}, AfdPhase::kPrefill, {});
    ASSERT_TRUE(row) << row.error().message;
    ASSERT_TRUE(row->prefill);
    EXPECT_DOUBLE_EQ(row->prefill->attention, 46.354);
    EXPECT_DOUBLE_EQ(row->prefill->ffn, 248.689);
    EXPECT_DOUBLE_EQ(row->prefill->to_ffn, 20.982);
    EXPECT_DOUBLE_EQ(row->prefill->step, e.step);
    EXPECT_DOUBLE_EQ(row->tokens_s, 0);
    EXPECT_DOUBLE_EQ(RoundDecimal(row->attention_memory.usage.total, 2), 83.06);
    EXPECT_DOUBLE_EQ(RoundDecimal(row->ffn_memory.usage.total, 2), 213.1);
    EXPECT_TRUE(row->ffn_memory.verdict.oom);
    EXPECT_FALSE(row->fits());
  }
}

TEST_F(AfdOnH200, BothPhasesAddUp) {
  const auto row =
      afd_->Evaluate(workload_, {96, 3, AfdPipeline::kOptimistic}, AfdPhase::kBoth, {});
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_DOUBLE_EQ(row->request_latency, 61478.225);
  EXPECT_EQ(row->HeadlineTimes(), nullptr);
  EXPECT_DOUBLE_EQ(RoundDecimal(row->attention_memory.usage.total, 2), 95.82);
  EXPECT_DOUBLE_EQ(RoundDecimal(row->ffn_memory.usage.total, 2), 213.1);
}

TEST_F(AfdOnH200, PartsAddUpToTheTimes) {
  const AfdSchedule schedule{96, 3, AfdPipeline::kOptimistic};
  const auto row = afd_->Evaluate(workload_, schedule, AfdPhase::kDecode, {});
  const auto parts = afd_->Explain(workload_, schedule, AfdPhase::kDecode, {});
  ASSERT_TRUE(row && parts);
  ASSERT_TRUE(parts->decode);
  EXPECT_FALSE(parts->prefill);
  EXPECT_NEAR(parts->decode->attention.TotalLatency() / 94 + parts->decode->transfers.combine,
              row->decode->attention, 5.1e-4);
  EXPECT_NEAR(parts->decode->ffn.TotalLatency() / 94 + parts->decode->transfers.all_gather +
                  parts->decode->transfers.reduce_scatter,
              row->decode->ffn, 5.1e-4);
  EXPECT_NEAR(parts->decode->attention_memory.total, row->attention_memory.usage.total, 1e-12);
}

TEST_F(AfdOnH200, KvBudgetCounts) {
  // 144 requests fit in memory, but not in the share of it that vLLM gives its KV cache.
  const auto row =
      afd_->Evaluate(workload_, {144, 3, AfdPipeline::kOptimistic}, AfdPhase::kDecode, {});
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_FALSE(row->attention_memory.verdict.oom);
  EXPECT_TRUE(row->attention_memory.verdict.kv_oom);
}

TEST_F(AfdOnH200, RefusesImpossibleSizes) {
  const auto refused = [&](const AfdSchedule& schedule) {
    const auto row = afd_->Evaluate(workload_, schedule, AfdPhase::kPrefill, {});
    return !row && row.error().kind == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused({0, 3, AfdPipeline::kSerial}));
  EXPECT_TRUE(refused({8, 0, AfdPipeline::kSerial}));
  EXPECT_TRUE(refused({1 << 20, 1, AfdPipeline::kSerial}));  // tokens of a step beyond 2^32
  workload_.isl = 0;
  EXPECT_TRUE(refused({8, 3, AfdPipeline::kSerial}));
  EXPECT_EQ(AfdDeployment::Create(nullptr, nullptr, AfdLayout{.attention_tp = 3}).error().kind,
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
