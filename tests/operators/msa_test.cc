// Block-sparse attention: measured blocks, borrowed utilisation, undefined block sizes.
#include "operators/msa.h"

#include <gtest/gtest.h>

#include "operators/dsa.h"
#include "operators/latent_data.h"

namespace infercast {
namespace {

using testing::At;
using testing::OpenLatent;

template <typename Op = MsaContext>
Op MinimaxOp() {
  Op op;
  op.name = "block";
  op.scale_factor = 1.0;
  op.num_heads = 64;
  op.num_kv_heads = 4;
  op.hidden_size = 6144;
  op.head_dim = 128;
  op.v_head_dim = 128;
  op.index_n_heads = 4;
  op.index_head_dim = 128;
  op.index_topk = 2048;
  op.block_size = 128;
  op.kv_cache_dtype = KvQuant::kBfloat16;
  op.dsa_architecture = "GlmMoeDsaForCausalLM";
  op.dsa_scale_k = 1.0;
  return op;
}

TEST(Msa, MeasuredBlocksCarryNoEnergy) {
  const auto result =
      BoundMsaContext(MinimaxOp(), OpenLatent(DatabaseMode::kSilicon)).Query(At(2, 1500, 700));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->latency_ms, 0);
  EXPECT_EQ(result->energy_wms, 0);
  EXPECT_EQ(result->source, Source::kSilicon);
  EXPECT_FALSE(result->has_sol);
}

// Utilisation of the DSA block at the same shape, applied to the block's own roofline, over the
// tuning factor.
TEST(Msa, EstimatesBorrowTheUtilisationOfDsa) {
  MsaContext op = MinimaxOp();
  op.dsa_scale_k = 1.3;
  op.scale_factor = 2.0;
  const QueryContext ctx = At(2, 1500, 700);
  const BoundMsaContext block(op, OpenLatent(DatabaseMode::kEmpirical));
  const auto result = block.Query(ctx);
  ASSERT_TRUE(result) << result.error().message;

  DsaContext dsa;
  dsa.scale_factor = 1.0;
  dsa.num_heads = 64;
  dsa.architecture = op.dsa_architecture;
  dsa.index_topk = 2048;
  const auto measured = BoundDsaContext(dsa, OpenLatent(DatabaseMode::kSilicon)).Query(ctx);
  const auto bound = BoundDsaContext(dsa, OpenLatent(DatabaseMode::kSol)).Query(ctx);
  const auto own = BoundMsaContext(op, OpenLatent(DatabaseMode::kSol)).Query(ctx);
  ASSERT_TRUE(measured && bound && own);
  const double utilisation = bound->latency_ms / measured->latency_ms;
  EXPECT_DOUBLE_EQ(result->latency_ms, own->latency_ms / (utilisation * 1.3));
  EXPECT_EQ(result->source, Source::kEmpirical);
  EXPECT_EQ(result->tier, Tier::kXop);
  EXPECT_EQ(result->origin.kind, OriginKind::kTransferred);
  ASSERT_NE(result->origin.donor, nullptr);
  EXPECT_EQ(*result->origin.donor, op.dsa_architecture);
}

TEST(Msa, HybridPrefersItsOwnMeasurements) {
  const auto own =
      BoundMsaContext(MinimaxOp(), OpenLatent(DatabaseMode::kHybrid)).Query(At(2, 1500));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->source, Source::kSilicon);
  MsaGeneration unmeasured = MinimaxOp<MsaGeneration>();
  unmeasured.kv_cache_dtype = KvQuant::kFp8;
  unmeasured.gemm_quant_mode = GemmQuant::kFp8Block;
  const auto borrowed =
      BoundMsaGeneration(unmeasured, OpenLatent(DatabaseMode::kHybrid)).Query(At(8, 5000));
  ASSERT_TRUE(borrowed) << borrowed.error().message;
  EXPECT_EQ(borrowed->tier, Tier::kXop);
}

TEST(Msa, BorrowingNeedsThePolicyAndADonor) {
  const TransferPolicy no_xop{true, true, true, false};
  MsaContext op = MinimaxOp();
  const auto forbidden =
      BoundMsaContext(op, OpenLatent(DatabaseMode::kEmpirical, no_xop)).Query(At(1, 500));
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().kind, ErrorKind::kEmpiricalNotImplemented);
  op.gemm_quant_mode = GemmQuant::kInt8Wo;  // no DSA block was measured so
  const auto alone = BoundMsaContext(op, OpenLatent(DatabaseMode::kEmpirical)).Query(At(1, 500));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().kind, ErrorKind::kEmpiricalNotImplemented);
}

TEST(Msa, DecodeDoesNotTellAttentionFormatsApart) {
  MsaGeneration op = MinimaxOp<MsaGeneration>();
  const Database db = OpenLatent(DatabaseMode::kSilicon);
  const auto measured =
      (*db.Get(TableId::kMsaGeneration))->Slice({"bfloat16", "bfloat16", "MiniMaxM3ForCausalLM"});
  ASSERT_TRUE(measured);
  const auto points = testing::Points(measured->Child(measured->begin));
  const auto& point = points.front();
  op.num_heads = static_cast<std::uint32_t>(point.keys[0]);
  const QueryContext ctx =
      At(static_cast<std::uint32_t>(point.keys[1]), static_cast<std::uint32_t>(point.keys[2]));
  for (const FmhaQuant fmha : {FmhaQuant::kBfloat16, FmhaQuant::kFp8}) {
    op.fmha_quant_mode = fmha;
    EXPECT_EQ(BoundMsaGeneration(op, db).Query(ctx)->latency_ms, point.leaf.latency);
  }
}

// At 3e12 bytes/s, 6e14 bf16 and 1.2e15 fp8 operations/s.
TEST(Msa, Roofline) {
  const Database db = OpenLatent(DatabaseMode::kSol);
  const auto prefill = BoundMsaContext(MinimaxOp(), db).Query(At(1, 3000));
  ASSERT_TRUE(prefill);
  // weights 6144*64*128 + 2*6144*4*128 + 64*128*6144 + 6144*4*128; 24 blocks of 128 tokens; pairs
  // 2048*2049/2 + 952*2048.
  const double weights = 50331648.0 + 6291456.0 + 50331648.0 + 3145728.0;
  const double math = (2.0 * 3000 * weights / 6e14 + 2.0 * 3000 * 4 * 128 * 24 / 1.2e15 +
                       2.0 * 64 * 256 * (2098176.0 + 1949696.0) / 6e14) *
                      1000.0;
  EXPECT_NEAR(prefill->latency_ms, math, math * 1e-12);
  const auto decode = BoundMsaGeneration(MinimaxOp<MsaGeneration>(), db).Query(At(16, 5000));
  ASSERT_TRUE(decode);
  // Memory decides: 4999 cached tokens are 40 blocks, 2048 of them are kept.
  const double bytes = (109051904.0 + 1048576.0) * 2 + 16.0 * 4 * 2048 * 256 * 2 +
                       16.0 * 40 * 4 * 128 + 16.0 * 64 * 128 * 2 * 2;
  EXPECT_NEAR(decode->latency_ms, bytes / 3e12 * 1000, decode->latency_ms * 1e-12);
}

TEST(Msa, ABlockSizeOfZeroIsAnErrorOnlyWhereBlocksAreCounted) {
  MsaContext op = MinimaxOp();
  op.block_size = 0;
  const Database db = OpenLatent(DatabaseMode::kSol);
  EXPECT_TRUE(BoundMsaContext(op, db).Query(At(1, 2048)));
  const auto beyond = BoundMsaContext(op, db).Query(At(1, 2049));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST(Msa, RatesComeBeforeTables) {
  const auto result = BoundMsaGeneration(MinimaxOp<MsaGeneration>(),
                                         OpenLatent(DatabaseMode::kHybrid, {}, "latent_old"))
                          .Query(At(1, 100));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kMissingSystemFlops);
}

}  // namespace
}  // namespace infercast
