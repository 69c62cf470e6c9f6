// The list of all-to-all libraries and the payload formats they were measured with.
#include "operators/moe_comm_backends.h"

#include <gtest/gtest.h>

namespace infercast {
namespace {

TEST(MoeCommBackends, NamesAreExact) {
  ASSERT_NE(FindMoeCommBackend("deepep_ht"), nullptr);
  EXPECT_EQ(FindMoeCommBackend("DeepEP_HT"), nullptr);
  EXPECT_EQ(FindMoeCommBackend(""), nullptr);
  EXPECT_EQ(MoeCommBackendNames(),
            "deepep_ht, deepep_ll, deepep_v2_context, deepep_v2_generation, trtllm_deepep_ht, "
            "trtllm_deepep_ll, nvlink_two_sided, nvlink_one_sided");
}

TEST(MoeCommBackends, WhoServesWhat) {
  for (const MoeCommBackend& b : kMoeCommBackends) {
    EXPECT_EQ(b.Has(MoeCommPhase::kPrepare), b.name == "nvlink_two_sided") << b.name;
    EXPECT_TRUE(b.Has(MoeCommPhase::kDispatch) && b.Has(MoeCommPhase::kCombine)) << b.name;
    const bool nvlink = b.name.starts_with("nvlink");
    const bool trtllm = nvlink || b.name.starts_with("trtllm");
    const bool v2 = b.name.starts_with("deepep_v2");
    EXPECT_EQ(b.Serves(Backend::kTrtllm), trtllm) << b.name;
    EXPECT_EQ(b.Serves(Backend::kVllm), !trtllm) << b.name;
    EXPECT_EQ(b.Serves(Backend::kSglang), !trtllm && !v2) << b.name;
    EXPECT_EQ(b.single_node_donor, !nvlink && !v2) << b.name;
    EXPECT_EQ(b.min_sm, nvlink ? 100 : 0) << b.name;
    const bool context = nvlink || b.name.ends_with("_ht") || b.name.ends_with("_context");
    const bool generation = nvlink || b.name.ends_with("_ll") || b.name.ends_with("_generation");
    EXPECT_EQ(b.Serves(InferencePhase::kContext), context) << b.name;
    EXPECT_EQ(b.Serves(InferencePhase::kGeneration), generation) << b.name;
  }
}

TEST(MoeCommBackends, FeasibleLayouts) {
  const MoeCommBackend& nvlink = *FindMoeCommBackend("nvlink_one_sided");
  EXPECT_TRUE(IsFeasible(nvlink, 8, 1, 8, 256, 100));
  EXPECT_TRUE(IsFeasible(nvlink, 8, 1, 8, 256, std::nullopt));
  EXPECT_FALSE(IsFeasible(nvlink, 8, 1, 8, 256, 90));
  EXPECT_FALSE(IsFeasible(nvlink, 9, 1, 8, 256, 100));
  EXPECT_FALSE(IsFeasible(nvlink, 8, 2, 8, 256, 100));
  EXPECT_FALSE(IsFeasible(nvlink, 8, 1, 1, 256, 100));
  EXPECT_FALSE(IsFeasible(nvlink, 8, 1, 24, 256, 100));
  EXPECT_FALSE(IsFeasible(nvlink, 8, 1, 512, 256, 100));
}

TEST(MoeCommBackends, PayloadFormats) {
  constexpr auto kDispatch = MoeCommPhase::kDispatch;
  constexpr auto kCombine = MoeCommPhase::kCombine;
  constexpr auto kContext = InferencePhase::kContext;
  constexpr auto kGeneration = InferencePhase::kGeneration;
  EXPECT_EQ(MoeCommDtype("deepep_ll", "h200_sxm", "w4afp8", kDispatch, kGeneration), "default");
  EXPECT_EQ(MoeCommDtype("trtllm_deepep_ht", "gb200", "fp8_block", kDispatch, kContext),
            "bfloat16");
  EXPECT_EQ(MoeCommDtype("trtllm_deepep_ht", "gb200", "nvfp4", kCombine, kContext), "nvfp4");
  EXPECT_EQ(MoeCommDtype("trtllm_deepep_ll", "gb200", "none", kDispatch, kGeneration), "bfloat16");
  EXPECT_EQ(MoeCommDtype("trtllm_deepep_ll", "gb200", "nvfp4", kDispatch, kGeneration), "nvfp4");
  EXPECT_EQ(MoeCommDtype("trtllm_deepep_ll", "gb200", "nvfp4", kCombine, kGeneration), "fp4");
  EXPECT_EQ(MoeCommDtype("nvlink_one_sided", "gb200", "fp8_block", kDispatch, kContext), "fp8");
  EXPECT_EQ(MoeCommDtype("nvlink_one_sided", "gb200", "nvfp4", kCombine, kContext), "nvfp4");
  EXPECT_EQ(MoeCommDtype("nvlink_one_sided", "gb200", "nvfp4", kCombine, kGeneration), "fp4");
  for (const auto& refused :
       {MoeCommDtype("trtllm_deepep_ll", "h200_sxm", "nvfp4", kDispatch, kGeneration),
        MoeCommDtype("trtllm_deepep_ht", "gb200", "w4afp8", kDispatch, kContext),
        MoeCommDtype("unknown", "gb200", "fp8", kDispatch, kContext)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace infercast
