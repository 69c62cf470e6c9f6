// Latent attention under wide expert parallelism: backends, order of checks, labels.
#include "operators/wide_ep_mla.h"

#include <gtest/gtest.h>

#include "operators/latent_data.h"

namespace infercast {
namespace {

using testing::At;
using testing::OpenLatent;

// Measured: flashinfer (fp8_block, fp8 cache), fa3 (bfloat16 both), trtllm_mla (both number formats
// with a bfloat16 cache).
WideEpContextMla Op(std::string backend, FmhaQuant math, KvQuant kv) {
  WideEpContextMla op;
  op.name = "block";
  op.scale_factor = 1.0;
  op.num_heads = 16;
  op.kv_cache_dtype = kv;
  op.fmha_quant_mode = math;
  op.attn_backend = std::move(backend);
  return op;
}

Result<PerfResult> Ask(const WideEpContextMla& op, DatabaseMode mode,
                       const std::string& system = "latent_sxm") {
  return BoundWideEpContextMla(op, OpenLatent(mode, {}, system)).Query(At(2, 900, 100));
}

ErrorKind KindOf(const Result<PerfResult>& result) {
  return result ? ErrorKind::kInternal : result.error().kind;
}

TEST(WideEpMla, ABackendWithoutRowsTakesThoseOfTrtllm) {
  const auto fa3 = Ask(Op("fa3", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kSilicon);
  const auto flashinfer =
      Ask(Op("flashinfer", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kSilicon);
  ASSERT_TRUE(fa3 && flashinfer);
  EXPECT_NE(fa3->latency_ms, flashinfer->latency_ms);
  const auto named =
      Ask(Op("trtllm_mla", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kEmpirical);
  const auto stood_in =
      Ask(Op("flashinfer", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kEmpirical);
  ASSERT_TRUE(named && stood_in);
  EXPECT_EQ(named->latency_ms, stood_in->latency_ms);
  EXPECT_EQ(KindOf(Ask(Op("fa3", FmhaQuant::kFp8Block, KvQuant::kFp8), DatabaseMode::kSilicon)),
            ErrorKind::kPerfDatabase);
}

TEST(WideEpMla, MeasuredAnswersTakeTwoBackendsOnly) {
  for (const char* backend : {"trtllm_mla", "other", ""}) {
    const auto op = Op(backend, FmhaQuant::kBfloat16, KvQuant::kBfloat16);
    EXPECT_EQ(KindOf(Ask(op, DatabaseMode::kSilicon)), ErrorKind::kInvalidEngineConfig);
    EXPECT_EQ(KindOf(Ask(op, DatabaseMode::kHybrid)), ErrorKind::kInvalidEngineConfig);
    EXPECT_TRUE(Ask(op, DatabaseMode::kSol));
  }
}

TEST(WideEpMla, EstimatesTakeAnyMeasuredBackend) {
  EXPECT_EQ(
      KindOf(Ask(Op("other", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kEmpirical)),
      ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(KindOf(Ask(Op("", FmhaQuant::kBfloat16, KvQuant::kBfloat16), DatabaseMode::kEmpirical)),
            ErrorKind::kInvalidEngineConfig);
  // A measured kernel, but not with this cache.
  EXPECT_EQ(
      KindOf(Ask(Op("trtllm_mla", FmhaQuant::kBfloat16, KvQuant::kFp8), DatabaseMode::kEmpirical)),
      ErrorKind::kEmpiricalNotImplemented);
}

TEST(WideEpMla, TheBackendIsCheckedBeforeTheRates) {
  const auto op = Op("other", FmhaQuant::kFp8Block, KvQuant::kFp8);
  EXPECT_EQ(KindOf(Ask(op, DatabaseMode::kSilicon, "latent_old")), ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(KindOf(Ask(Op("flashinfer", FmhaQuant::kFp8Block, KvQuant::kFp8),
                       DatabaseMode::kSilicon, "latent_old")),
            ErrorKind::kMissingSystemFlops);
  EXPECT_EQ(KindOf(Ask(op, DatabaseMode::kEmpirical, "latent_old")),
            ErrorKind::kMissingSystemFlops);
}

TEST(WideEpMla, NoEnergyAndNoDecomposition) {
  const auto op = Op("flashinfer", FmhaQuant::kFp8Block, KvQuant::kFp8);
  const auto silicon = Ask(op, DatabaseMode::kSilicon);
  ASSERT_TRUE(silicon);
  EXPECT_GT(silicon->latency_ms, 0);
  EXPECT_EQ(silicon->energy_wms, 0);
  EXPECT_EQ(silicon->source, Source::kSilicon);
  const auto roofline = Ask(op, DatabaseMode::kSolFull);
  ASSERT_TRUE(roofline);
  EXPECT_FALSE(roofline->has_sol);
}

TEST(WideEpMla, MoreHeadsThanTheModelHasAreEstimatedOnly) {
  auto op = Op("flashinfer", FmhaQuant::kFp8Block, KvQuant::kFp8);
  op.num_heads = 200;
  EXPECT_EQ(KindOf(Ask(op, DatabaseMode::kSilicon)), ErrorKind::kPerfDatabase);
  const auto hybrid = Ask(op, DatabaseMode::kHybrid);
  ASSERT_TRUE(hybrid);
  EXPECT_EQ(hybrid->source, Source::kEmpirical);
  EXPECT_EQ(hybrid->tier, Tier::kEmpirical);
}

TEST(WideEpMla, ContextParallelPartsAddUp) {
  auto op = Op("flashinfer", FmhaQuant::kFp8Block, KvQuant::kFp8);
  const Database db = OpenLatent(DatabaseMode::kSilicon);
  const BoundWideEpContextMla whole(op, db);
  op.cp_size = 3;
  const auto result = BoundWideEpContextMla(op, db).Query(At(2, 900, 100));
  const auto first = whole.Query(At(2, 150, 100));
  const auto last = whole.Query(At(2, 150, 850));
  ASSERT_TRUE(result && first && last);
  EXPECT_EQ(result->latency_ms, first->latency_ms + last->latency_ms);
  EXPECT_EQ(result->source, Source::kSilicon);
}

TEST(WideEpMla, DecodeIgnoresTheFormatOfPrefill) {
  WideEpGenerationMla op;
  op.scale_factor = 1.0;
  op.num_heads = 64;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.attn_backend = "flashinfer";
  const Database db = OpenLatent(DatabaseMode::kSilicon);
  const auto bfloat16 = BoundWideEpGenerationMla(op, db).Query(At(3, 5000));
  op.fmha_quant_mode = FmhaQuant::kFp8Block;
  const auto fp8 = BoundWideEpGenerationMla(op, db).Query(At(3, 5000));
  ASSERT_TRUE(bfloat16 && fp8);
  EXPECT_EQ(bfloat16->latency_ms, fp8->latency_ms);
}

}  // namespace
}  // namespace infercast
