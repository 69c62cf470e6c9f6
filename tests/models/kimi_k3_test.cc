// Kimi-K3: kernels by backend and speculation, the draft model, the cache, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_support.h"

namespace infercast {
namespace {

using testing::Build;
using testing::Find;
using testing::Names;
using testing::Options;
using testing::Parse;

// The published checkpoint: 93 layers, every fourth (and the last) attends in full.
std::string KimiK3(const std::string& linear_layers) {
  return fmt::format(R"({{"architectures": ["KimiK3ForConditionalGeneration"], "text_config": {{
    "num_hidden_layers": 93, "hidden_size": 7168, "num_attention_heads": 96,
    "num_key_value_heads": 96, "intermediate_size": 33792, "vocab_size": 163840,
    "max_position_embeddings": 1048576, "num_experts": 896, "num_experts_per_token": 16,
    "moe_intermediate_size": 3072, "routed_expert_hidden_size": 3584, "num_shared_experts": 2,
    "first_k_dense_replace": 1, "attn_res_block_size": 12, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "linear_attn_config": {{"num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4,
    "kda_layers": [{}]}}}}}})",
                     linear_layers);
}

std::string Published() {
  std::string ids;
  for (int i = 1; i <= 92; ++i) {
    if (i % 4 != 0) ids += fmt::format("{}{}", ids.empty() ? "" : ", ", i);
  }
  return KimiK3(ids);
}

BuildOptions On(Backend backend, std::int64_t nextn) {
  BuildOptions options = Options(backend, {.tp = 8, .moe_tp = 1, .moe_ep = 8});
  options.nextn = nextn;
  return options;
}

bool Has(const std::vector<Operator>& ops, std::string_view name) {
  return std::ranges::count(Names(ops), name) > 0;
}

TEST(KimiK3Plan, SplitsLayersByKind) {
  const ModelPlan plan = Build(Parse(Published()), On(Backend::kSglang, 0));
  const auto& ops = plan.context_ops;
  EXPECT_EQ(ops.size(), 38u);
  EXPECT_EQ(plan.generation_ops.size(), 39u);
  EXPECT_EQ(Find<Kda>(ops, "context_kda_scan").scale_factor, 69.0);
  EXPECT_EQ(Find<ContextMla>(ops, "context_attention").scale_factor, 24.0);
  EXPECT_EQ(Find<Gemm>(ops, "context_dense_gate_up_gemm").scale_factor, 1.0);
  // Experts see the latent width; the checkpoint's own spelling gives their number a token.
  const auto& experts = Find<Moe>(ops, "context_moe");
  EXPECT_EQ(experts.scale_factor, 92.0);
  EXPECT_EQ(experts.hidden_size, 3584u);
  EXPECT_EQ(experts.topk, 16u);
  // The decay inputs of all heads are computed on every GPU.
  EXPECT_EQ(Find<Gemm>(ops, "context_kda_bfa_gemm").n, 224u);
}

TEST(KimiK3Plan, FusesDecodeOnVllmUnlessDraftsAreVerified) {
  const ModelConfig model = Parse(Published());
  const ModelPlan plain = Build(model, On(Backend::kVllm, 0));
  EXPECT_TRUE(Has(plain.generation_ops, "generation_kda_fused_decode"));
  EXPECT_FALSE(Has(plain.generation_ops, "generation_kda_onorm"));
  EXPECT_FALSE(Has(plain.generation_ops, "draft_embedding"));
  const ModelPlan drafts = Build(model, On(Backend::kVllm, 7));
  EXPECT_EQ(Find<Kda>(drafts.generation_ops, "generation_kda_verify").draft_tokens, 8);
  EXPECT_TRUE(Has(drafts.generation_ops, "generation_kda_onorm"));
  EXPECT_EQ(Find<Fallback>(drafts.generation_ops, "generation_mla_block").fallback.size(), 3u);
}

TEST(KimiK3Plan, ListsTheDraftModelInsteadOfScalingLayers) {
  const ModelPlan plan = Build(Parse(Published()), On(Backend::kSglang, 7));
  const auto& ops = plan.generation_ops;
  EXPECT_EQ(Find<Elementwise>(ops, "generation_ffn_norm").scale_factor, 93.0);
  EXPECT_EQ(Find<Gemm>(ops, "draft_qkv_gemm").scale_factor, 4.375);
  EXPECT_EQ(Find<CustomAllReduce>(ops, "draft_ar").scale_factor, 8.75);
  EXPECT_EQ(Find<Gemm>(ops, "draft_kv_proj_gemm").scale_factor, 0.625);
  EXPECT_EQ(Find<Gemm>(ops, "draft_logits_gemm").scale_factor, 0.125);
  EXPECT_FALSE(Has(plan.context_ops, "draft_embedding"));
}

TEST(KimiK3Plan, CachesLatentsAndRecurrentStates) {
  const ModelConfig model = Parse(Published());
  const KvLayout kv = Build(model, On(Backend::kSglang, 0)).facts.kv;
  EXPECT_EQ(kv.Bytes(0), 280857600.0);
  EXPECT_EQ(kv.Bytes(4096), 394103808.0);
  EXPECT_EQ(kv.Capacity(3e9), 98348);
  EXPECT_EQ(kv.Capacity(2e8), 0);  // not even the states fit
  // The draft model's cache: a latent on vLLM, two sharded heads elsewhere.
  EXPECT_EQ(Build(model, On(Backend::kVllm, 7)).facts.kv.elements_per_token, 13824.0 + 2880.0);
  EXPECT_EQ(Build(model, On(Backend::kSglang, 7)).facts.kv.elements_per_token, 13824.0 + 1280.0);
}

TEST(KimiK3Plan, RefusesImpossibleLinearLayers) {
  for (const std::string ids : {"", "0", "94"}) {
    const auto model = ParseCheckpoint("test/model", KimiK3(ids));
    ASSERT_FALSE(model) << ids;
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
  }
}

}  // namespace
}  // namespace infercast
