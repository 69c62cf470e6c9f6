// Rooflines of latent and sparse attention, worked out for a B200 (7.7e12 bytes/s, 2.25e15 bf16 and
// 4.5e15 fp8 operations/s) and an H200.
#include "operators/latent_roofline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "operators/dsa_roofline.h"
#include "operators/wide_ep_mla.h"

namespace infercast {
namespace {

using namespace latent;

constexpr double kBandwidth = 7.7e12;
constexpr double kBf16 = 2.25e15;
constexpr double kFp8 = 4.5e15;

TEST(LatentRoofline, Prefill) {
  const Roof roof = ContextMlaRoof(4, 128, 5000, 1000, 6000, 2, kBf16, kBandwidth);
  EXPECT_DOUBLE_EQ(roof.math_ms, 2.5486222222222223);
  EXPECT_DOUBLE_EQ(roof.mem_ms, 0.4681142857142857);
  EXPECT_DOUBLE_EQ(roof.Time(), roof.math_ms);
  const Roof fp8 = ContextMlaRoof(2, 128, 1024, 512, 1536, 1, kFp8, kBandwidth);
  EXPECT_DOUBLE_EQ(fp8.math_ms, 0.038177487075555558);
  EXPECT_DOUBLE_EQ(fp8.mem_ms, 0.038130036363636363);
}

TEST(LatentRoofline, Decode) {
  const Roof roof = GenerationMlaRoof(3, 128, 5000, 2, kBf16, kBandwidth);
  EXPECT_DOUBLE_EQ(roof.math_ms, 0.0018568533333333333);
  EXPECT_DOUBLE_EQ(roof.mem_ms, 0.0023522244155844158);
  EXPECT_DOUBLE_EQ(roof.Time(), roof.mem_ms);
}

TEST(LatentRoofline, DecodeOfNoTokensReadsLessThanNoCache) {
  const Roof roof = GenerationMlaRoof(1, 0, 0, 2, kBf16, kBandwidth);
  EXPECT_LT(roof.mem_ms, 0);
  EXPECT_EQ(roof.Time(), 0);
}

TEST(LatentRoofline, DecodeWithItsProducts) {
  const Roof roof = GenerationMlaModuleRoof(8, 16, 3000, 1, 1, kFp8, kFp8, kBandwidth);
  EXPECT_DOUBLE_EQ(roof.math_ms, 0.00019314187377777775);
  EXPECT_DOUBLE_EQ(roof.mem_ms, 0.0021245340259740259);
}

TEST(LatentRoofline, Product) {
  const Roof roof = MlaBmmRoof(64, 96, 2, kBf16, kBandwidth);
  EXPECT_DOUBLE_EQ(roof.math_ms, 0.00035791394133333329);
  EXPECT_DOUBLE_EQ(roof.mem_ms, 0.0026554846753246751);
}

TEST(LatentRoofline, PrefixCorrectionIsTheShareOfQuadraticWork) {
  EXPECT_DOUBLE_EQ(PrefixCorrection(4096, 1024), 15.0 / 16.0);
  EXPECT_EQ(PrefixCorrection(4096, 0), 1.0);
  EXPECT_EQ(PrefixCorrection(1000, 1000), 0.0);
  EXPECT_EQ(PrefixCorrection(0, 0), 0.0);
  EXPECT_LT(PrefixCorrection(5, 10), 0.0);  // a sequence length that wrapped around
}

TEST(LatentRoofline, ZigzagChunks) {
  EXPECT_EQ(ZigzagChunk(8192, 4), 1024U);
  EXPECT_EQ(ZigzagChunk(8193, 4), 1025U);
  EXPECT_EQ(ZigzagChunk(0, 2), 1U);
  EXPECT_EQ(ZigzagChunk(4294967295U, 2), 1073741824U);
  EXPECT_EQ(ZigzagChunk(7, 4294967295U), 1U);
}

TEST(WideEpRoofline, BothPhases) {
  const WideEpRates h200{1, 1.978e15, 9.89e14, 4.8e12};
  EXPECT_DOUBLE_EQ(h200.Context(2, 3000, 1000, 4000, 16).Time(), 0.28571774317492415);
  EXPECT_DOUBLE_EQ(h200.Generation(3, 5000, 16).Time(), 0.0081342933333333339);
  EXPECT_FALSE(h200.Context(2, 3000, 1000, 4000, 16).TimeOnly().has_sol);
}

DsaRoofline GlmAt(std::uint64_t window) {
  DsaRoofline roofline;
  roofline.shape = DsaShape::Of("GlmMoeDsaForCausalLM");
  roofline.rates = {1, 2, 2, kFp8, kFp8, kBf16, kBandwidth};  // fp8_block weights, bf16 the rest
  roofline.window = window;
  return roofline;
}

TEST(DsaRoofline, PrefillInTheThreeBranchesOfTheWindow) {
  const DsaRoofline glm = GlmAt(2048);
  const Roof beyond = glm.Context(64, 2, 3000, 2500);
  EXPECT_DOUBLE_EQ(beyond.math_ms, 1.2856852480000001);
  EXPECT_DOUBLE_EQ(beyond.mem_ms, 0.11121676883116882);
  const Roof across = glm.Context(64, 2, 3000, 1000);
  EXPECT_DOUBLE_EQ(across.math_ms, 1.2013864659626667);
  EXPECT_DOUBLE_EQ(across.mem_ms, 0.11116534025974026);
  const Roof within = glm.Context(64, 2, 1000, 500);
  EXPECT_DOUBLE_EQ(within.math_ms, 0.27886660266666669);
  EXPECT_DOUBLE_EQ(within.mem_ms, 0.066489250909090913);
}

TEST(DsaRoofline, ReuseLayersDoNotScore) {
  DsaRoofline glm = GlmAt(2048);
  const Roof full = glm.Context(64, 2, 3000, 2500);
  const Roof within = glm.Context(64, 2, 1000, 500);
  glm.has_indexer = false;
  const Roof reuse = glm.Context(64, 2, 3000, 2500);
  EXPECT_DOUBLE_EQ(0.25 * full.math_ms + 0.75 * reuse.math_ms, 1.2406292480000001);
  EXPECT_DOUBLE_EQ(0.25 * full.mem_ms + 0.75 * reuse.mem_ms, 0.11107534025974025);
  EXPECT_EQ(glm.Context(64, 2, 1000, 500).math_ms, within.math_ms);  // nothing to choose from
}

TEST(DsaRoofline, DecodeKeepsTheArchitecturesWindow) {
  const Roof roof = GlmAt(2048).Generation(64, 16, 5000);
  EXPECT_DOUBLE_EQ(roof.math_ms, 0.0034139304391111111);
  EXPECT_DOUBLE_EQ(roof.mem_ms, 0.027015580259740258);
  EXPECT_EQ(GlmAt(16).Generation(64, 16, 5000).math_ms, roof.math_ms);
}

TEST(DsaRoofline, PairsAreExact) {
  EXPECT_EQ(WindowedPairs(1, 3, 0, 10), Count{6});       // 1 + 2 + 3
  EXPECT_EQ(WindowedPairs(2, 3, 4, 10), Count{2 * 18});  // 5 + 6 + 7
  EXPECT_EQ(WindowedPairs(1, 4, 0, 2), Count{7});        // 1 + 2 + 2 + 2
  EXPECT_EQ(WindowedPairs(3, 5, 9, 4), Count{60});       // all see four
  EXPECT_EQ(WindowedPairs(1, 3, 2, 2), Count{6});        // the first query is past the window
  // Beyond 64 bits: one request, whole square.
  const Count n = 4294967295U;
  EXPECT_EQ(WindowedPairs(1U << 31, n, 0, n), (Count{1} << 31) * (n * (n + 1) / 2));
}

TEST(DsaRoofline, UnknownArchitecturesHaveTheDimensionsOfDeepSeek) {
  EXPECT_EQ(DsaShape::Of("").hidden, 7168U);
  EXPECT_EQ(DsaShape::Of("DeepseekV32ForCausalLM").index_heads, 64U);
  EXPECT_EQ(DsaShape::Of("GlmMoeDsaForCausalLM").hidden, 6144U);
}

TEST(DsaRoofline, EveryRateIsNeeded) {
  SystemSpec system;
  system.mem_bw = 1e12;
  system.bfloat16_tc_flops = 1e14;
  const auto no_fp8 =
      BlockRates::Of(system, GemmQuant::kBfloat16, KvQuant::kBfloat16, FmhaQuant::kBfloat16);
  ASSERT_FALSE(no_fp8);
  EXPECT_EQ(no_fp8.error().kind, ErrorKind::kMissingSystemFlops);
  system.fp8_tc_flops = 2e14;
  const auto rates = BlockRates::Of(system, GemmQuant::kFp8Block, KvQuant::kInt8, FmhaQuant::kFp8);
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->gemm_bytes, 1);
  EXPECT_EQ(rates->kv_bytes, 1);
  EXPECT_EQ(rates->gemm_flops, 2e14);
  EXPECT_EQ(rates->fmha_flops, 2e14);
}

}  // namespace
}  // namespace infercast
