// Whole latent-attention blocks: which model's block answers.
#include "operators/mla_module.h"

#include <gtest/gtest.h>

#include "operators/latent_data.h"

namespace infercast {
namespace {

using testing::At;
using testing::OpenLatent;

// Under bfloat16 weights blocks of 96 and of 128 native heads were measured, under fp8_block of 128
// only.
MlaModuleGeneration Op(std::optional<std::uint32_t> native, GemmQuant gemm) {
  MlaModuleGeneration op;
  op.name = "block";
  op.scale_factor = 1.0;
  op.num_heads = 16;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.gemm_quant_mode = gemm;
  op.native_num_heads = native;
  return op;
}

double Latency(std::optional<std::uint32_t> native, GemmQuant gemm) {
  const auto result = BoundMlaModuleGeneration(Op(native, gemm), OpenLatent(DatabaseMode::kSilicon))
                          .Query(At(8, 700));
  return result ? result->latency_ms : -1.0;
}

TEST(MlaModule, NativeHeadsChooseTheBlock) {
  const double small = Latency(96, GemmQuant::kBfloat16);
  const double large = Latency(128, GemmQuant::kBfloat16);
  ASSERT_GT(small, 0);
  ASSERT_GT(large, 0);
  ASSERT_NE(small, large);
  EXPECT_EQ(Latency(127, GemmQuant::kBfloat16), small);  // the next smaller one
  EXPECT_EQ(Latency(256, GemmQuant::kBfloat16), large);
  EXPECT_EQ(Latency(8, GemmQuant::kBfloat16), small);            // the smallest
  EXPECT_EQ(Latency(std::nullopt, GemmQuant::kBfloat16), -1.0);  // no way to choose
}

TEST(MlaModule, TheOnlyBlockAnswersForAll) {
  const double only = Latency(128, GemmQuant::kFp8Block);
  ASSERT_GT(only, 0);
  EXPECT_EQ(Latency(8, GemmQuant::kFp8Block), only);
  EXPECT_EQ(Latency(std::nullopt, GemmQuant::kFp8Block), only);
}

TEST(MlaModule, UnsaidHeadsAreMissingData) {
  const Database db = OpenLatent(DatabaseMode::kSilicon);
  const auto result =
      BoundMlaModuleGeneration(Op(std::nullopt, GemmQuant::kBfloat16), db).Query(At(8, 700));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
  EXPECT_NE(result.error().message.find("2 blocks"), std::string::npos);
}

TEST(MlaModule, DecodeNeedsTheRateOfItsProductsPrefillDoesNot) {
  const Database db = OpenLatent(DatabaseMode::kSol);  // has no fp4 figure
  const auto decode = BoundMlaModuleGeneration(Op(128, GemmQuant::kNvfp4), db).Query(At(8, 700));
  ASSERT_FALSE(decode);
  EXPECT_EQ(decode.error().kind, ErrorKind::kMissingSystemFlops);
  MlaModuleContext op;
  op.scale_factor = 1.0;
  op.num_heads = 16;
  op.gemm_quant_mode = GemmQuant::kNvfp4;
  EXPECT_TRUE(BoundMlaModuleContext(op, db).Query(At(8, 700)));
}

TEST(MlaModule, PrefillIsTheKernelsRoofline) {
  const Database db = OpenLatent(DatabaseMode::kSol);
  MlaModuleContext op;
  op.scale_factor = 2.0;
  op.num_heads = 16;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.gemm_quant_mode = GemmQuant::kFp8Block;
  const auto result = BoundMlaModuleContext(op, db).Query(At(2, 1000, 500));
  ASSERT_TRUE(result);
  const latent::Roof roof = latent::ContextMlaRoof(2, 16, 1000, 500, 1500, 1, 6e14, 3e12);
  EXPECT_EQ(result->sol_math_ms, roof.math_ms * 2);
  EXPECT_EQ(result->sol_mem_ms, roof.mem_ms * 2);
  EXPECT_EQ(result->latency_ms, roof.Time() * 2);
}

}  // namespace
}  // namespace infercast
