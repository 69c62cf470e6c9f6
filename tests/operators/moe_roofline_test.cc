// Whole-number work and bytes of grouped expert computation.
#include "operators/moe_roofline.h"

#include <gtest/gtest.h>

namespace infercast {
namespace {

// Hopper-like figures of a DeepSeek-V3 layer over eight expert ranks.
MoeRoofline DeepSeekOnEight() {
  return {.shape = {.hidden = 7168, .inter = 2048, .topk = 8, .experts = 256},
          .tp = 1,
          .ep = 8,
          .products = 3,
          .flops = 1979e12,
          .weight_bytes = 1.0,
          .bandwidth = 4.8e12};
}

TEST(MoeRoofline, EveryDivisionRoundsDown) {
  MoeRoofline r;
  r.shape = {.hidden = 5, .inter = 7, .topk = 3, .experts = 10};
  r.tp = 2;
  r.ep = 4;
  r.products = 2;
  r.flops = r.weight_bytes = r.bandwidth = 1.0;
  // 9 routed tokens, 2 on this rank; 1260 operations -> 315 -> 157; 2 of its 2 experts read.
  const MoeRoofline::Bounds bounds = r.At(3);
  EXPECT_EQ(bounds.math_ms, 157.0 * 1000);
  EXPECT_EQ(bounds.mem_ms, (2.0 * 5 * 2 + 14 + 35 * 2) * 1000);
}

TEST(MoeRoofline, NoRanksActAsOne) {
  MoeRoofline r = DeepSeekOnEight();
  r.ep = 1;
  const double one = r.At(64).Time();
  r.ep = 0;
  r.tp = 0;
  EXPECT_EQ(r.At(64).Time(), one);
}

TEST(MoeRoofline, FewTokensReadFewExperts) {
  const MoeRoofline r = DeepSeekOnEight();
  EXPECT_EQ(r.At(0).Time(), 0.0);
  // One routed token a rank reads one expert; 32 and more read all 32.
  EXPECT_LT(r.At(1).mem_ms * 30, r.At(32).mem_ms);
  EXPECT_GT(r.At(1).mem_ms * 33, r.At(32).mem_ms);
}

TEST(MoeRoofline, TableCoordinatesAreRounded) {
  const MoeRoofline r = DeepSeekOnEight();
  EXPECT_EQ(r.TimeAt(63.6), r.At(64).Time());
  EXPECT_EQ(r.TimeAt(64.4), r.At(64).Time());
}

TEST(GatheredTokens, SaturateAt32Bits) {
  EXPECT_EQ(GatheredTokens(100, 4), 400u);
  EXPECT_EQ(GatheredTokens(100, 0), 100u);
  EXPECT_EQ(GatheredTokens(1u << 31, 4), 0xffffffffu);
}

TEST(BalancedTokens, FourFifthsRoundedDown) {
  EXPECT_EQ(BalancedTokens(101), 80u);
  EXPECT_EQ(BalancedTokens(100), 80u);
  EXPECT_EQ(BalancedTokens(1), 0u);
}

}  // namespace
}  // namespace infercast
