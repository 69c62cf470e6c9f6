// Which parallel layouts exist.
#include "models/parallel.h"

#include <gtest/gtest.h>

namespace infercast {
namespace {

TEST(ParallelLayout, InfersTheMissingExpertSize) {
  ParallelLayout layout{.tp = 4, .dp = 2, .moe_ep = 4};
  ASSERT_TRUE(ResolveExpertWidth(layout));
  EXPECT_EQ(layout.moe_tp, 2);
  layout = {.tp = 1, .cp = 8, .moe_tp = 1};
  ASSERT_TRUE(ResolveExpertWidth(layout));
  EXPECT_EQ(layout.moe_ep, 8);
}

TEST(ParallelLayout, RejectsImpossibleWidths) {
  for (ParallelLayout layout :
       {ParallelLayout{.tp = 4}, ParallelLayout{.tp = 4, .moe_tp = 3},
        ParallelLayout{.tp = 4, .moe_tp = 2, .moe_ep = 4}, ParallelLayout{.tp = 4, .moe_ep = 0},
        ParallelLayout{.tp = 4, .moe_tp = -1, .moe_ep = -4},
        ParallelLayout{.tp = 4, .moe_tp = std::int64_t{1} << 62, .moe_ep = 4}}) {
    const auto status = ResolveExpertWidth(layout);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(ParallelLayout, RejectsSizesBelowOneAndAbsurdOnes) {
  EXPECT_TRUE(CheckSizes({.tp = 8, .pp = 2, .dp = 4}));
  for (const ParallelLayout& layout :
       {ParallelLayout{.tp = 0}, ParallelLayout{.pp = -1}, ParallelLayout{.dp = 0},
        ParallelLayout{.cp = 0}, ParallelLayout{.tp = std::int64_t{1} << 40}}) {
    EXPECT_FALSE(CheckSizes(layout));
  }
}

TEST(ParallelLayout, CountsGpus) {
  const ParallelLayout layout{.tp = 4, .pp = 2, .dp = 3};
  EXPECT_EQ(layout.GpusPerWorker(), 24);
  EXPECT_EQ(layout.AttentionWidth(), 12);
  EXPECT_EQ(Describe(layout), "tp4 pp2 dp3");
}

}  // namespace
}  // namespace infercast
