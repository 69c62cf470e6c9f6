// What the cache managers make of their memory, against an engine's log and by hand.
#include "memory/cache_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "memory/memory_usage.h"
#include "models/checkpoint.h"

namespace infercast {
namespace {

struct Built {
  ModelAnatomy anatomy;
  ModelPlan plan;
};

Built Build(const std::string& name, Backend backend, std::int64_t tp = 1, std::int64_t nextn = 0,
            std::int64_t pp = 1) {
  std::string file = name;
  file.replace(file.find('/'), 1, "--");
  CheckpointSearch search;
  search.unlisted = UnlistedArchitecture::kMap;
  auto model = LoadModelConfig("tests/models/configs/" + file + ".json", search);
  if (!model) throw std::runtime_error(model.error().message);
  BuildOptions options;
  options.backend = backend;
  options.layout.tp = tp;
  options.layout.pp = pp;
  options.layout.moe_tp = 1;
  options.layout.moe_ep = tp;
  options.nextn = nextn;
  options.gpus_per_node = 8;
  auto anatomy = DescribeModel(*model);
  if (!anatomy) throw std::runtime_error(anatomy.error().message);
  auto plan = BuildModelPlan(*model, options);
  if (!plan) throw std::runtime_error(plan.error().message);
  return {*std::move(anatomy), *std::move(plan)};
}

CacheLayout LayOut(const Built& built, double bytes, const CacheOptions& options = {}) {
  auto layout = LayOutCache(built.anatomy, built.plan, bytes, options);
  if (!layout) throw std::runtime_error(layout.error().message);
  return *std::move(layout);
}

// A vLLM log: "Available KV cache memory: 5.38 GiB", "GPU KV cache size: 78,384 tokens". The log
// rounds the memory to two decimals. Blocks of 16 tokens in 18 layers take 589,824 bytes, and two
// groups share them, so 78,384 tokens are 9,798 or 9,799 blocks: 5.3822 to 5.3833 GiB.
TEST(VllmCache, MeetsTheLogOfGptOss120b) {
  const Built gpt_oss = Build("openai/gpt-oss-120b", Backend::kVllm);
  for (const double bytes : {9798 * 589824.0, 5.3825 * kGiB, 9800 * 589824.0 - 1}) {
    EXPECT_EQ(std::round(bytes / kGiB * 100), 538);
    EXPECT_EQ(LayOut(gpt_oss, bytes).tokens, 78384);
  }
  EXPECT_EQ(LayOut(gpt_oss, 9798 * 589824.0 - 1).tokens, 78368);
  EXPECT_EQ(LayOut(gpt_oss, 9800 * 589824.0).tokens, 78400);
}

TEST(VllmCache, CountsByConcurrencyToo) {
  const CacheLayout layout = LayOut(Build("openai/gpt-oss-120b", Backend::kVllm), 9798 * 589824.0);
  // A sequence of 131,072 tokens takes 8,192 blocks of full attention, and of windows those of 127
  // + 8,192 tokens and one to slide.
  EXPECT_EQ(layout.tokens_by_concurrency,
            static_cast<std::int64_t>(9798.0 / (8192 + 521) * 131072));
}

TEST(VllmCache, WithoutTheHybridManagerEveryLayerKeepsEverything) {
  const Built gpt_oss = Build("openai/gpt-oss-120b", Backend::kVllm);
  const CacheLayout on = LayOut(gpt_oss, kGiB);
  const CacheLayout off = LayOut(gpt_oss, kGiB, {.hybrid_manager = false});
  EXPECT_EQ(off.tokens, static_cast<std::int64_t>(kGiB / (36 * 32768)) * 16);
  EXPECT_EQ(on.tokens / 16, off.tokens / 16);        // the report is the same ...
  EXPECT_GT(on.MaxBatch(8192), off.MaxBatch(8192));  // ... but not what fits
}

TEST(VllmCache, PadsGroupsToTheRarestType) {
  // 22 sliding and 4 full layers: groups of 4, six of them sliding with two layers of padding.
  const Built gemma = Build("google/gemma-3-1b-pt", Backend::kVllm);
  const CacheLayout layout = LayOut(gemma, kGiB);
  ASSERT_EQ(layout.pools.size(), 1U);
  EXPECT_EQ(layout.pools[0].uses.size(), 7U);
  const double page = 16 * 2 * 256 * 2;
  const auto blocks = static_cast<std::int64_t>(std::floor(kGiB / page) / 4);
  EXPECT_EQ(layout.pools[0].blocks, blocks);
  EXPECT_EQ(layout.tokens, blocks / 7 * 16);
}

TEST(VllmCache, BlocksHoldARecurrentState) {
  const Built nemotron = Build("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", Backend::kVllm);
  const CacheLayout layout = LayOut(nemotron, 40 * kGiB);
  // A state of 2,134,016 bytes against 1,024 bytes a token: the next multiple of 16 tokens.
  EXPECT_EQ(layout.block_size, 2096);
  ASSERT_EQ(layout.pools.size(), 1U);
  EXPECT_EQ(layout.pools[0].uses.size(), 5U);  // 6 attention layers, 23 states in four groups
  EXPECT_DOUBLE_EQ(layout.pools[0].block_bytes, 6 * 2096 * 1024.0);
  EXPECT_EQ(layout.tokens, layout.pools[0].blocks / 5 * 2096);
  // One block of attention and four of states.
  EXPECT_EQ(layout.MaxBatch(2096), layout.pools[0].blocks / 5);
}

TEST(VllmCache, LatentAttentionIsOneGroup) {
  const CacheLayout layout = LayOut(Build("deepseek-ai/DeepSeek-V3", Backend::kVllm, 8), kGiB);
  EXPECT_EQ(layout.tokens, static_cast<std::int64_t>(kGiB / (61 * 576 * 2 * 16)) * 16);
  EXPECT_DOUBLE_EQ(layout.bytes_per_token, 61 * 576 * 2);
}

TEST(SglangCache, SplitsPoolsByARatioOfTokens) {
  const CacheLayout layout = LayOut(Build("openai/gpt-oss-120b", Backend::kSglang), kGiB);
  const double per_layer = 2048 * 18;
  EXPECT_EQ(layout.tokens, static_cast<std::int64_t>(kGiB / (per_layer + 0.8 * per_layer)));
  ASSERT_EQ(layout.pools.size(), 2U);
  EXPECT_NEAR(static_cast<double>(layout.pools[1].blocks), 0.8 * static_cast<double>(layout.tokens),
              1);
  // Long sequences are limited by the full pool, short ones by the windows.
  EXPECT_EQ(layout.MaxBatch(8192), layout.tokens / 8192);
  EXPECT_EQ(layout.MaxBatch(100), layout.pools[1].blocks / 100);
}

TEST(SglangCache, StatesAreSlots) {
  const Built nemotron = Build("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", Backend::kSglang);
  const CacheLayout layout = LayOut(nemotron, 40 * kGiB);
  const double state = 23 * 2134016.0;
  const auto slots = static_cast<std::int64_t>(40 * kGiB * 0.9 / 1.9 / state);
  ASSERT_EQ(layout.pools.size(), 2U);
  EXPECT_EQ(layout.pools[0].blocks, slots);
  EXPECT_EQ(layout.tokens, static_cast<std::int64_t>(
                               (40 * kGiB - static_cast<double>(slots) * state) / (6 * 1024)));
  EXPECT_EQ(layout.MaxBatch(1), slots / 3);
}

TEST(TrtllmCache, KeepsEverythingUnlessWindowsAreNamed) {
  const Built gpt_oss = Build("openai/gpt-oss-120b", Backend::kTrtllm);
  const CacheLayout all = LayOut(gpt_oss, kGiB);
  EXPECT_EQ(all.tokens, static_cast<std::int64_t>(kGiB / (36 * 2048 * 32)) * 32);
  const CacheLayout windows = LayOut(gpt_oss, kGiB, {.window_pools = true});
  ASSERT_EQ(windows.pools.size(), 2U);
  // Nearly everything goes to the layers that see 131,072 tokens.
  const double share = 131072.0 / (131072 + 128);
  EXPECT_EQ(windows.tokens, static_cast<std::int64_t>(kGiB * share / (18 * 2048 * 32)) * 32);
}

TEST(Cache, DraftLayersAndStages) {
  const Built plain = Build("deepseek-ai/DeepSeek-V3", Backend::kSglang, 8);
  const Built drafting = Build("deepseek-ai/DeepSeek-V3", Backend::kSglang, 8, 1);
  EXPECT_DOUBLE_EQ(LayOut(plain, kGiB).bytes_per_token, 61 * 1152);
  EXPECT_DOUBLE_EQ(LayOut(drafting, kGiB).bytes_per_token, 62 * 1152);
  EXPECT_GT(DraftWeightBytes(drafting.anatomy, drafting.plan), kGiB);
  const Built staged = Build("meta-llama/Llama-3.2-1B", Backend::kSglang, 1, 0, 2);
  EXPECT_DOUBLE_EQ(LayOut(staged, kGiB).bytes_per_token, 8 * 2048);
}

TEST(Cache, LongestContextAndLargestBatchAgree) {
  for (const Backend backend : {Backend::kVllm, Backend::kSglang, Backend::kTrtllm}) {
    const CacheLayout layout = LayOut(Build("openai/gpt-oss-120b", backend), 8 * kGiB);
    for (const std::int64_t batch : {1, 3, 17, 100}) {
      const std::int64_t longest = layout.MaxTokens(batch, 131072);
      EXPECT_GE(layout.MaxBatch(longest), batch);
      if (longest < 131072) {
        EXPECT_LT(layout.MaxBatch(longest + 1), batch);
      }
    }
    EXPECT_EQ(layout.MaxTokens(1'000'000'000, 131072), 0);
  }
}

TEST(NativeKv, EqualsThePlainRuleWithoutHybridLayers) {
  const Built llama = Build("mistralai/Mistral-7B-v0.3", Backend::kVllm, 2);
  const KvLayout kv = NativeKvLayout(llama.anatomy, llama.plan);
  for (const std::int64_t tokens : {1, 777, 8192}) {
    EXPECT_DOUBLE_EQ(kv.Bytes(tokens), llama.plan.facts.kv.Bytes(tokens));
  }
  EXPECT_EQ(kv.Capacity(kGiB), llama.plan.facts.kv.Capacity(kGiB));
}

TEST(NativeKv, KeepsWindowsWhereTheBackendDoes) {
  const Built vllm = Build("openai/gpt-oss-120b", Backend::kVllm);
  EXPECT_DOUBLE_EQ(NativeKvLayout(vllm.anatomy, vllm.plan).Bytes(10'000),
                   18 * 2048.0 * (10'000 + 128));
  const Built trtllm = Build("openai/gpt-oss-120b", Backend::kTrtllm);
  EXPECT_DOUBLE_EQ(NativeKvLayout(trtllm.anatomy, trtllm.plan).Bytes(10'000), 36 * 2048.0 * 10'000);
}

TEST(NativeKv, CountsStates) {
  const Built nemotron = Build("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", Backend::kVllm);
  const KvLayout kv = NativeKvLayout(nemotron.anatomy, nemotron.plan);
  EXPECT_DOUBLE_EQ(kv.Bytes(1000), 23 * 2134016.0 + 6 * 1024.0 * 1000);
}

}  // namespace
}  // namespace infercast
