// Operator lists of the dense, MoE, hybrid and vision families. The expected figures are worked out
// from the layers' shapes.
#include "models/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model_support.h"

namespace infercast {
namespace {

using testing::Build;
using ::testing::ElementsAre;
using testing::Find;
using testing::Names;
using testing::Options;
using testing::Parse;

constexpr Backend kTrtllm = Backend::kTrtllm;
constexpr Backend kVllm = Backend::kVllm;
constexpr Backend kSglang = Backend::kSglang;

ErrorKind FailureOf(const std::string& config, const BuildOptions& options) {
  const auto plan = BuildModelPlan(Parse(config), options);
  EXPECT_FALSE(plan);
  return plan ? ErrorKind::kInternal : plan.error().kind;
}

TEST(DensePlan, ShardsEveryLayerByTensorParallelism) {
  BuildOptions options = Options(kTrtllm, {.tp = 4, .pp = 2});
  options.nextn = 2;
  const ModelPlan plan = Build(Parse(testing::Qwen3Dense(testing::kFp8Block)), options);
  EXPECT_THAT(Names(plan.context_ops),
              ElementsAre("context_embedding", "context_add_norm_1", "context_qkv_gemm",
                          "context_attention", "context_proj_gemm", "context_add_norm_2",
                          "context_gate_ffn1_gemm", "context_act_gate", "context_ffn2_gemm",
                          "context_logits_gemm", "context_embedding_ar", "context_ar_1",
                          "context_ar_2", "context_p2p"));
  const auto& context = plan.context_ops;
  EXPECT_EQ(Find<Embedding>(context, "context_embedding").vocab_size, 37984u);
  EXPECT_EQ(Find<Elementwise>(context, "context_add_norm_1").bytes_per_token, 40960.0);
  const auto& qkv = Find<Gemm>(context, "context_qkv_gemm");
  EXPECT_EQ(qkv.n, 2560u);
  EXPECT_EQ(qkv.k, 5120u);
  EXPECT_EQ(qkv.scale_factor, 64.0);
  EXPECT_EQ(qkv.quant_mode, GemmQuant::kFp8Block);
  EXPECT_FALSE(qkv.low_precision_input);
  const auto& attention = Find<ContextAttention>(context, "context_attention");
  EXPECT_EQ(attention.n, 16u);
  EXPECT_EQ(attention.n_kv, 2u);
  EXPECT_EQ(attention.kv_cache_dtype, KvQuant::kFp8);
  EXPECT_EQ(attention.fmha_quant_mode, FmhaQuant::kFp8);
  EXPECT_TRUE(attention.use_qk_norm);
  EXPECT_TRUE(Find<Gemm>(context, "context_proj_gemm").low_precision_input);
  EXPECT_EQ(Find<Gemm>(context, "context_gate_ffn1_gemm").n, 12800u);
  EXPECT_EQ(Find<Gemm>(context, "context_ffn2_gemm").k, 6400u);
  EXPECT_EQ(Find<Gemm>(context, "context_logits_gemm").quant_mode, GemmQuant::kBfloat16);
  EXPECT_EQ(Find<P2P>(context, "context_p2p").scale_factor, 1.0);

  const auto& generation = plan.generation_ops;
  EXPECT_EQ(Find<Gemm>(generation, "generation_qkv_gemm").scale_factor, 66.0);
  EXPECT_EQ(Find<Embedding>(generation, "generation_embedding").scale_factor, 1.03125);
  EXPECT_EQ(Find<P2P>(generation, "generation_p2p").scale_factor, 1.03125);
  EXPECT_EQ(plan.facts.kv.Bytes(1000), 1000.0 * 2 * 128 * 64 * 2);
}

TEST(DensePlan, DraftScaleIsOneDivisionAndOneProduct) {
  BuildOptions options;
  options.nextn = 1;
  options.override_layers = 47;
  const ModelPlan plan = Build(Parse(testing::Qwen3Dense()), options);
  // 47 * (48 / 47) is not 48 in binary arithmetic.
  EXPECT_EQ(Find<Gemm>(plan.generation_ops, "generation_qkv_gemm").scale_factor, 47.99999999999999);
}

TEST(DensePlan, KvHeadsRoundUpOverTheGpus) {
  const ModelPlan plan = Build(Parse(testing::Qwen3Dense()), Options(kVllm, {.tp = 16}));
  EXPECT_EQ(Find<GenerationAttention>(plan.generation_ops, "generation_attention").n_kv, 1u);
  EXPECT_EQ(Find<Gemm>(plan.context_ops, "context_qkv_gemm").n, 512u + 256u);
}

TEST(DensePlan, ContextParallelismSplitsPrefillOnly) {
  const ModelPlan plan = Build(Parse(testing::Qwen3Dense()), Options(kSglang, {.cp = 4}));
  EXPECT_EQ(plan.context_ops.size(), 15u);
  EXPECT_EQ(plan.context_ops[4].name(), "context_cp_all_gather");
  const auto& gather = Find<Nccl>(plan.context_ops, "context_cp_all_gather");
  EXPECT_EQ(gather.hidden_size, 8.0 * 128 * 2);
  EXPECT_EQ(gather.num_gpus, 4u);
  EXPECT_EQ(Find<Gemm>(plan.context_ops, "context_logits_gemm").seq_split, 4u);
  EXPECT_EQ(Find<ContextAttention>(plan.context_ops, "context_attention").cp_size, 4u);
  EXPECT_EQ(plan.generation_ops.size(), 14u);
  EXPECT_EQ(Find<Gemm>(plan.generation_ops, "generation_logits_gemm").seq_split, 1u);
}

TEST(DensePlan, RejectsImpossibleDeployments) {
  EXPECT_EQ(FailureOf(testing::Qwen3Dense(), Options(kVllm, {.tp = 3})),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(FailureOf(testing::Qwen3Dense(), Options(kVllm, {.cp = 2})),
            ErrorKind::kUnsupportedModel);
  EXPECT_EQ(FailureOf(testing::Qwen3Dense(), Options(kSglang, {.tp = 2, .cp = 2})),
            ErrorKind::kInvalidArgument);
  BuildOptions negative;
  negative.nextn = -1;
  EXPECT_EQ(FailureOf(testing::Qwen3Dense(), negative), ErrorKind::kInvalidArgument);
}

TEST(DensePlan, SizesBeyondTheWireAreAnError) {
  const std::string huge =
      testing::Qwen3Dense(R"(, "intermediate_size": 1073741823, "head_dim": 1073741823)");
  EXPECT_EQ(FailureOf(huge, {}), ErrorKind::kInvalidArgument);
}

TEST(MoePlan, EndsPrefillWithTheExperts) {
  BuildOptions options = Options(kTrtllm, {.tp = 4, .moe_ep = 4});
  options.nextn = 1;
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe(testing::kFp8Block)), options);
  EXPECT_EQ(plan.layout.moe_tp, 1);
  EXPECT_THAT(Names(plan.context_ops),
              ElementsAre("context_embedding", "context_add_norm_1", "context_qkv_gemm",
                          "context_attention", "context_proj_gemm", "context_add_norm_2",
                          "context_router_gemm", "context_moe_pre_dispatch", "context_moe",
                          "context_moe_post_dispatch", "context_embedding_ar", "context_p2p"));
  const auto& dispatch = Find<MoeDispatch>(plan.context_ops, "context_moe_pre_dispatch");
  EXPECT_EQ(dispatch.flavor, DispatchFlavor::kTrtllmAlltoall);
  EXPECT_TRUE(dispatch.pre_dispatch);
  EXPECT_EQ(dispatch.moe_quant, MoeQuant::kFp8Block);
  const auto& experts = Find<Moe>(plan.context_ops, "context_moe");
  EXPECT_EQ(experts.workload_distribution, "power_law_1.2");
  EXPECT_EQ(experts.inter_size, 1536u);
  EXPECT_EQ(plan.generation_ops[10].name(), "generation_logits_gemm");
  EXPECT_EQ(testing::SumOfScales(plan.context_ops), 848.0);
  EXPECT_EQ(testing::SumOfScales(plan.generation_ops), 858.031914893617);
}

TEST(MoePlan, OtherDistributionsPassThrough) {
  BuildOptions options = Options(kVllm, {.moe_tp = 1, .moe_ep = 1});
  options.workload_distribution = "uniform";
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe()), options);
  EXPECT_EQ(Find<Moe>(plan.context_ops, "context_moe").workload_distribution, "uniform");
  EXPECT_EQ(Find<MoeDispatch>(plan.context_ops, "context_moe_pre_dispatch").flavor,
            DispatchFlavor::kCustomAllReduce);
}

TEST(MoePlan, GptOssAlternatesWindowedAndFullAttention) {
  const ModelPlan plan = Build(Parse(testing::GptOss()), Options(kSglang, {.tp = 2, .moe_tp = 2}));
  const auto& windowed = std::get<ContextAttention>(plan.context_ops[0].kind);
  EXPECT_EQ(windowed.window_size, 128u);
  EXPECT_EQ(windowed.scale_factor, 18.0);
  const auto& full = std::get<ContextAttention>(plan.context_ops[4].kind);
  EXPECT_EQ(full.window_size, 0u);
  EXPECT_EQ(full.scale_factor, 18.0);
  EXPECT_EQ(plan.quant.moe, MoeQuant::kW4a16Mxfp4);
  const double layer = 4 * 64 * 2 * 2;
  EXPECT_EQ(plan.facts.kv.Bytes(100), 36 * layer * 100);
  EXPECT_EQ(plan.facts.kv.Bytes(5000), layer * (18 * 128 + 18 * 5000));
}

TEST(MoePlan, RejectsImpossibleExpertLayouts) {
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), Options(kVllm, {.tp = 4})), ErrorKind::kInvalidArgument);
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), Options(kVllm, {.tp = 4, .moe_tp = 1, .moe_ep = 2})),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), Options(kVllm, {.dp = 256, .moe_ep = 256})),
            ErrorKind::kInvalidArgument);
  // 1536 / 8 is no multiple of the 128-wide scale blocks.
  EXPECT_EQ(
      FailureOf(testing::Qwen3Moe(testing::kFp8Block), Options(kVllm, {.tp = 8, .moe_tp = 8})),
      ErrorKind::kInvalidArgument);
}

BuildOptions LargeEp(Backend backend, std::string context, std::string generation) {
  BuildOptions options = Options(backend, {.dp = 16, .moe_tp = 1, .moe_ep = 16});
  options.moe_comm = {std::move(context), std::move(generation)};
  options.gpus_per_node = 4;
  options.enable_eplb = true;
  options.expert_slots = 144;
  return options;
}

TEST(LargeEpPlan, SglangExchangesThroughDeepEp) {
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe(testing::kFp8Block)),
                               LargeEp(kSglang, "deepep_ht", "deepep_ll"));
  EXPECT_THAT(Names(plan.context_ops),
              ElementsAre("context_embedding", "context_add_norm_1", "context_qkv_gemm",
                          "context_attention", "context_proj_gemm", "context_add_norm_2",
                          "context_router_gemm", "context_moe_dispatch", "context_moe",
                          "context_moe_combine"));
  const auto& dispatch = Find<MoeAllToAll>(plan.context_ops, "context_moe_dispatch");
  EXPECT_EQ(dispatch.node_num, 4u);
  EXPECT_EQ(dispatch.sms, 20u);
  EXPECT_EQ(dispatch.comm_dtype, "default");
  const auto& prefill = Find<MoeExpertCompute>(plan.context_ops, "context_moe");
  EXPECT_EQ(prefill.num_slots, 144u);
  EXPECT_EQ(prefill.workload_distribution, "power_law_0.6");
  EXPECT_TRUE(prefill.enable_eplb);
  EXPECT_EQ(Find<MoeAllToAll>(plan.generation_ops, "generation_moe_dispatch").sms, 0u);
  EXPECT_EQ(Find<MoeExpertCompute>(plan.generation_ops, "generation_moe").workload_distribution,
            "power_law_1.2");
  EXPECT_EQ(plan.generation_ops.back().name(), "generation_logits_gemm");
  EXPECT_EQ(Find<Embedding>(plan.context_ops, "context_embedding").vocab_size, 151936u);
}

TEST(LargeEpPlan, TensorRtLlmPreparesBeforeItDispatches) {
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe(testing::kFp8Block)),
                               LargeEp(kTrtllm, "nvlink_two_sided", "nvlink_one_sided"));
  EXPECT_EQ(plan.context_ops[7].name(), "context_moe_prepare");
  EXPECT_EQ(plan.context_ops.size(), 13u);
  EXPECT_EQ(plan.generation_ops.size(), 13u);
  EXPECT_EQ(Find<MoeAllToAll>(plan.context_ops, "context_moe_prepare").comm_dtype, "fp8");
  const auto& experts = Find<MoeExpertCompute>(plan.context_ops, "context_moe");
  EXPECT_EQ(experts.workload_distribution, "power_law_1.2_eplb");
  EXPECT_FALSE(experts.enable_eplb);
}

TEST(LargeEpPlan, OnePhaseAloneKeepsTheFusedBlockInTheOther) {
  BuildOptions options = LargeEp(kVllm, "deepep_ht", "");
  options.moe_comm.generation.reset();
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe()), options);
  EXPECT_NO_THROW(Find<MoeAllToAll>(plan.context_ops, "context_moe_dispatch"));
  EXPECT_NO_THROW(Find<MoeDispatch>(plan.generation_ops, "generation_moe_pre_dispatch"));
}

TEST(LargeEpPlan, NeedsANodeWidthAndAKnownLibrary) {
  BuildOptions options = LargeEp(kVllm, "deepep_ht", "deepep_ll");
  options.gpus_per_node.reset();
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), options), ErrorKind::kInvalidArgument);
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), LargeEp(kVllm, "carrier_pigeon", "deepep_ll")),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(FailureOf(testing::MiMoV2(), LargeEp(kVllm, "deepep_ht", "deepep_ll")),
            ErrorKind::kInvalidArgument);
}

TEST(HybridPlan, GroupsLayersByAttentionAndFeedForward) {
  const ModelPlan plan = Build(Parse(testing::MiMoV2(testing::kFp8Block)),
                               Options(kVllm, {.tp = 4, .moe_tp = 1, .moe_ep = 4}));
  ASSERT_EQ(plan.context_ops.size(), 29u);
  EXPECT_EQ(Find<Embedding>(plan.context_ops, "context_embedding").vocab_size, 152576u);
  const auto& global = Find<Gemm>(plan.context_ops, "context_global_qkv_gemm");
  EXPECT_EQ(global.n, 3392u);
  EXPECT_EQ(global.scale_factor, 39.0);
  const auto& sliding = Find<Gemm>(plan.context_ops, "context_swa_qkv_gemm");
  EXPECT_EQ(sliding.n, 3712u);
  EXPECT_EQ(sliding.scale_factor, 8.0);
  const auto& window = std::get<ContextAttention>(plan.context_ops[12].kind);
  EXPECT_EQ(window.window_size, 128u);
  EXPECT_EQ(window.n_kv, 2u);
  EXPECT_EQ(Find<Gemm>(plan.context_ops, "context_swa_dense_gate_up_gemm").n, 8192u);
  EXPECT_EQ(Find<MoeDispatch>(plan.context_ops, "context_swa_moe_pre_dispatch").moe_quant,
            MoeQuant::kBfloat16);
  EXPECT_EQ(Find<Moe>(plan.context_ops, "context_global_moe").workload_distribution,
            "power_law_1.01");
}

TEST(HybridPlan, ALayerOverrideDoesNotFitThePattern) {
  BuildOptions options = Options(kVllm, {.moe_ep = 1});
  options.override_layers = 4;
  EXPECT_EQ(FailureOf(testing::MiMoV2(), options), ErrorKind::kInvalidArgument);
}

TEST(VisionPlan, SpreadsImagesOrShardsTheTower) {
  const ModelConfig model = Parse(testing::Qwen3Vl());
  const ModelPlan spread = Build(model, Options(kVllm, {.tp = 4}));
  EXPECT_EQ(spread.encoder_ops.size(), 16u);
  EXPECT_EQ(testing::SumOfScales(spread.encoder_ops), 314.0);
  EXPECT_EQ(Find<Gemm>(spread.encoder_ops, "encoder_qkv_gemm").n, 3456u);
  EXPECT_EQ(Find<Gemm>(spread.encoder_ops, "encoder_projector_fc0_gemm").k, 4608u);
  EXPECT_EQ(Find<Nccl>(spread.encoder_ops, "encoder_dp_all_gather").hidden_size, 4096.0 * 4 * 4);
  ASSERT_TRUE(spread.vision);
  EXPECT_EQ(spread.vision->projector_instances, 4);

  BuildOptions sharded = Options(kVllm, {.tp = 4});
  sharded.encoder_data_parallel = false;
  const ModelPlan shards = Build(model, sharded);
  EXPECT_EQ(shards.encoder_ops.size(), 15u);
  EXPECT_EQ(Find<EncoderAttention>(shards.encoder_ops, "encoder_attention").n, 4u);
  EXPECT_EQ(Find<CustomAllReduce>(shards.encoder_ops, "encoder_ar_1").tp_size, 4u);

  sharded.layout.tp = 32;
  EXPECT_EQ(FailureOf(testing::Qwen3Vl(), sharded), ErrorKind::kInvalidArgument);
}

TEST(VisionPlan, AWorkerWithoutEncoderKeepsTheImageFacts) {
  BuildOptions options;
  options.language_only = true;
  const ModelPlan plan = Build(Parse(testing::Qwen3Vl()), options);
  EXPECT_TRUE(plan.encoder_ops.empty());
  EXPECT_TRUE(plan.vision);
}

TEST(WholeForwardPlan, CollapsesEachPhaseIntoOneOperator) {
  BuildOptions options = Options(kVllm, {.tp = 2, .moe_ep = 2});
  options.forward_model = ForwardModel::kWholeForward;
  options.attention_backend = "flashinfer";
  const ModelPlan plan = Build(Parse(testing::Qwen3Moe()), options);
  ASSERT_EQ(plan.context_ops.size(), 1u);
  const auto& prefill = Find<FpmForward>(plan.context_ops, "fpm_forward_prefill");
  const auto& decode = Find<FpmForward>(plan.generation_ops, "fpm_forward_decode");
  EXPECT_EQ(prefill.sol_ops.size(), 12u);
  EXPECT_EQ(decode.sol_ops.size(), 13u);
  EXPECT_THAT(prefill.match_identity,
              ElementsAre("bfloat16", "bfloat16", "bfloat16", "half", "bfloat16", "2", "1", "1",
                          "1", "2", "1", "auto", "auto", "False", "False"));
  EXPECT_EQ(decode.weight_bytes, prefill.weight_bytes);

  options.nextn = 1;
  EXPECT_EQ(FailureOf(testing::Qwen3Moe(), options), ErrorKind::kUnsupportedModel);
}

}  // namespace
}  // namespace infercast
