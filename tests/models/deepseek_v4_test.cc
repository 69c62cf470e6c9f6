// DeepSeek-V4: grouping of layers by compression ratio, the cache of each, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model_support.h"

namespace infercast {
namespace {

using testing::Build;
using ::testing::ElementsAre;
using testing::Find;
using testing::Options;
using testing::Parse;

// The Flash checkpoint: 43 layers. `ratios` is the content of compress_ratios.
std::string Flash(const std::string& ratios) {
  return fmt::format(R"({{"architectures": ["DeepseekV4ForCausalLM"], "num_hidden_layers": 43,
    "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "vocab_size": 129280, "max_position_embeddings": 1048576, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6,
    "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8, "qk_rope_head_dim": 64,
    "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512, "sliding_window": 128,
    "num_hash_layers": 3, "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-06,
    "compress_rope_theta": 160000, "expert_dtype": "fp4", "compress_ratios": [{}]{}}})",
                     ratios, testing::kFp8Block);
}

std::string Repeat(const std::string& head, const std::string& tail, int times) {
  std::string list = head;
  for (int i = 0; i < times; ++i) list += (list.empty() ? "" : ", ") + tail;
  return list;
}

// 0, 0, then 4 and 128 in turn up to layer 43, and one entry for the draft layer.
std::string ShippedRatios() { return Repeat("0, 0", "4, 128", 20) + ", 4, 0"; }

std::vector<std::pair<Dsv4AttentionKind, double>> Attention(const ModelPlan& plan) {
  std::vector<std::pair<Dsv4AttentionKind, double>> groups;
  for (const Operator& op : plan.context_ops) {
    if (const auto* module = std::get_if<Dsv4Context>(&op.kind)) {
      groups.emplace_back(module->attn_kind, module->scale_factor);
    }
  }
  return groups;
}

ModelPlan BuildRatios(const std::string& ratios, std::int64_t override_layers = 0) {
  BuildOptions options = Options(Backend::kSglang, {.moe_tp = 1, .moe_ep = 1});
  options.override_layers = override_layers;
  return Build(Parse(Flash(ratios)), options);
}

constexpr Dsv4AttentionKind kCsa = Dsv4AttentionKind::kCsa;
constexpr Dsv4AttentionKind kHca = Dsv4AttentionKind::kHca;

TEST(DeepseekV4Plan, GroupsLayersByRatioInOrderOfAppearance) {
  EXPECT_THAT(Attention(BuildRatios(ShippedRatios())),
              ElementsAre(std::pair(kCsa, 21.0), std::pair(kHca, 22.0)));
  EXPECT_THAT(Attention(BuildRatios(Repeat("128, 128", "4", 41))),
              ElementsAre(std::pair(kHca, 2.0), std::pair(kCsa, 41.0)));
  EXPECT_THAT(Attention(BuildRatios(Repeat("0, 0", "4", 41))),
              ElementsAre(std::pair(kCsa, 41.0), std::pair(kHca, 2.0)));
  EXPECT_THAT(Attention(BuildRatios(Repeat("", "0", 43))), ElementsAre(std::pair(kHca, 43.0)));
}

TEST(DeepseekV4Plan, KeepsTheCheckpointsAttentionLayersUnderALayerOverride) {
  const ModelPlan plan = BuildRatios(ShippedRatios(), 5);
  EXPECT_THAT(Attention(plan), ElementsAre(std::pair(kCsa, 21.0), std::pair(kHca, 22.0)));
  EXPECT_EQ(Find<Mhc>(plan.context_ops, "context_mhc_pre").scale_factor, 5.0);
}

TEST(DeepseekV4Plan, CachesWindowsCompressedEntriesAndBuffers) {
  const ModelPlan plan = BuildRatios(ShippedRatios());
  const KvLayout& kv = plan.facts.kv;
  EXPECT_EQ(kv.Bytes(0), 11345920.0);
  EXPECT_EQ(kv.Bytes(1), 11367936.0);
  EXPECT_EQ(kv.Bytes(4096), 26877952.0);
  EXPECT_EQ(kv.Capacity(3e9), 961935);
  // Nothing but windows never grows: any length the model serves fits.
  EXPECT_EQ(BuildRatios(Repeat("", "0", 43)).facts.kv.Capacity(3e9), 1048576);
}

TEST(DeepseekV4Plan, SplitsPrefillTokensAndKeepsTheHandOverWhole) {
  BuildOptions options = Options(Backend::kSglang, {.cp = 4, .moe_tp = 1, .moe_ep = 4});
  const ModelPlan plan = Build(Parse(Flash(ShippedRatios())), options);
  EXPECT_EQ(Find<Gemm>(plan.context_ops, "context_logits_gemm").seq_split, 4u);
  EXPECT_EQ(Find<Dsv4Context>(plan.context_ops, "context_attention").cp_size, 4u);
  EXPECT_EQ(Find<P2P>(plan.context_ops, "context_p2p").seq_split, 1u);
  EXPECT_EQ(Find<Dsv4Generation>(plan.generation_ops, "generation_attention").cp_size, 1u);
}

TEST(DeepseekV4Plan, RefusesUnknownRatiosAndShortLists) {
  const auto plan = BuildModelPlan(Parse(Flash(Repeat("8, 2", "4", 41))),
                                   Options(Backend::kSglang, {.moe_tp = 1, .moe_ep = 1}));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(plan.error().message, ::testing::HasSubstr("2, 8"));
  EXPECT_FALSE(ParseCheckpoint("test/model", Flash("0, 4")));
}

TEST(DeepseekV4Plan, FusesExpertsOnlyUnderPureExpertParallelismOnSglang) {
  const ModelConfig model = Parse(Flash(ShippedRatios()));
  BuildOptions options = Options(Backend::kSglang, {.tp = 4, .moe_tp = 1, .moe_ep = 4});
  options.moe_backend = "megamoe";
  options.workload_distribution = "uniform";
  const ModelPlan plan = Build(model, options);
  EXPECT_EQ(Find<Dsv4MegaMoe>(plan.context_ops, "context_megamoe").workload_distribution,
            "balanced");
  options.layout.moe_tp = 4;
  options.layout.moe_ep = 1;
  EXPECT_FALSE(BuildModelPlan(model, options));
  options.layout.moe_tp = 1;
  options.layout.moe_ep = 4;
  options.backend = Backend::kVllm;
  EXPECT_FALSE(BuildModelPlan(model, options));
}

}  // namespace
}  // namespace infercast
