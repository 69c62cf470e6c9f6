// Libraries of large expert parallelism, and which of them a layout gets.
#include "models/large_ep.h"

#include <gtest/gtest.h>

#include "models/mode_adjustment.h"
#include "models/model_support.h"

namespace infercast {
namespace {

std::string Dtype(std::string_view library, std::string_view phase, bool context, MoeQuant quant,
                  std::optional<std::string> system = std::nullopt) {
  const auto dtype = MoeCommDtype(library, phase, context, quant, system);
  return dtype ? *dtype : std::string(ToString(dtype.error().kind));
}

TEST(MoeCommLibraries, MoveTokensInTheFormatsTheyServe) {
  EXPECT_EQ(Dtype("deepep_ht", "dispatch", true, MoeQuant::kInt4Wo), "default");
  EXPECT_EQ(Dtype("trtllm_deepep_ht", "combine", true, MoeQuant::kFp8Block), "bfloat16");
  EXPECT_EQ(Dtype("trtllm_deepep_ht", "dispatch", true, MoeQuant::kNvfp4), "nvfp4");
  EXPECT_EQ(Dtype("trtllm_deepep_ht", "dispatch", true, MoeQuant::kInt4Wo), "invalid_argument");
  EXPECT_EQ(Dtype("trtllm_deepep_ll", "combine", false, MoeQuant::kNvfp4, "b200_sxm"), "fp4");
  EXPECT_EQ(Dtype("trtllm_deepep_ll", "dispatch", false, MoeQuant::kNvfp4), "nvfp4");
  EXPECT_EQ(Dtype("trtllm_deepep_ll", "combine", false, MoeQuant::kNvfp4, "h200_sxm"),
            "invalid_argument");
  EXPECT_EQ(Dtype("nvlink_one_sided", "combine", false, MoeQuant::kNvfp4), "fp4");
  EXPECT_EQ(Dtype("nvlink_two_sided", "combine", true, MoeQuant::kFp8Block), "fp8");
}

TEST(MoeCommLibraries, NeedPureExpertParallelismThatDividesTheExperts) {
  const MoeCommLibrary& library = **FindMoeCommLibrary("nvlink_one_sided");
  EXPECT_TRUE(IsFeasible(library, 8, 1, 16, 256, 100));
  EXPECT_TRUE(IsFeasible(library, 8, 1, 16, 256, std::nullopt));
  EXPECT_FALSE(IsFeasible(library, 8, 1, 16, 256, 90));
  EXPECT_FALSE(IsFeasible(library, 9, 1, 16, 256, 100));
  EXPECT_FALSE(IsFeasible(library, 8, 2, 16, 256, 100));
  EXPECT_FALSE(IsFeasible(library, 8, 1, 1, 256, 100));
  EXPECT_FALSE(IsFeasible(library, 8, 1, 24, 256, 100));
  EXPECT_FALSE(FindMoeCommLibrary("carrier_pigeon"));
}

TEST(SelectMoeComm, TakesTheFirstLibraryThatCoversTheSize) {
  const LargeEpCoverage coverage = {
      .context = {{"trtllm_deepep_ht", {8}}, {"nvlink_two_sided", {8, 16}}},
      .generation = {{"trtllm_deepep_ll", {16}}}};
  const auto select = [&](ParallelLayout layout, Backend backend = Backend::kTrtllm) {
    return SelectMoeComm(coverage, backend, layout);
  };
  EXPECT_EQ(select({.dp = 16, .moe_tp = 1, .moe_ep = 16}),
            (MoeCommBackends{"nvlink_two_sided", "trtllm_deepep_ll"}));
  EXPECT_EQ(select({.dp = 8, .moe_tp = 1, .moe_ep = 8}),
            (MoeCommBackends{"trtllm_deepep_ht", std::nullopt}));
  EXPECT_FALSE(select({.tp = 16, .moe_tp = 1, .moe_ep = 16}).any());
  EXPECT_TRUE(select({.tp = 16, .moe_tp = 1, .moe_ep = 16}, Backend::kVllm).any());
  EXPECT_FALSE(select({.dp = 32, .moe_tp = 2, .moe_ep = 16}).any());
}

TEST(AttentionTablesOf, FollowFamilyBackendAndRegime) {
  const auto context = [](ModelFamily family, Backend backend, bool large_ep) {
    return AttentionTablesOf(family, backend, large_ep).context;
  };
  EXPECT_EQ(context(ModelFamily::kLlama, Backend::kSglang, false), "context_attention");
  EXPECT_EQ(context(ModelFamily::kDeepseek, Backend::kVllm, true), "context_attention");
  EXPECT_EQ(context(ModelFamily::kDeepseek, Backend::kSglang, false), "context_mla");
  EXPECT_EQ(context(ModelFamily::kKimiK25, Backend::kSglang, true), "wideep_context_mla");
  EXPECT_EQ(context(ModelFamily::kDeepseek, Backend::kTrtllm, true), "context_mla_granular");
  EXPECT_EQ(context(ModelFamily::kKimiK3, Backend::kSglang, true), "context_mla");
  EXPECT_EQ(context(ModelFamily::kDeepseekV32, Backend::kVllm, false), "dsa_context_module");
  EXPECT_EQ(context(ModelFamily::kDeepseekV4, Backend::kTrtllm, false),
            "deepseek_v4_context_module");
}

}  // namespace
}  // namespace infercast
