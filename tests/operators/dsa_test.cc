// Sparse attention blocks: kernels, full and reuse layers, estimates, context parallelism.
#include "operators/dsa.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "operators/dsa_context_parallel.h"
#include "operators/latent_data.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::At;
using testing::MadeUpSystem;
using testing::OpenLatent;
using testing::Row;

constexpr std::string_view kGlm = "GlmMoeDsaForCausalLM";

template <typename Op = DsaContext>
Op GlmOp(std::uint32_t heads = 64, KvQuant kv = KvQuant::kFp8) {
  Op op;
  op.name = "block";
  op.scale_factor = 1.0;
  op.num_heads = heads;
  op.kv_cache_dtype = kv;
  op.fmha_quant_mode = FmhaQuant::kBfloat16;
  op.gemm_quant_mode = kv == KvQuant::kFp8 ? GemmQuant::kFp8Block : GemmQuant::kBfloat16;
  op.architecture = kGlm;
  op.index_topk = 2048;
  return op;
}

Row BlockRow(std::string_view op, std::string_view kernel, std::string_view kv, std::int64_t heads,
             std::int64_t step, std::int64_t isl, std::int64_t batch, double latency) {
  return {{"architecture", std::string(kGlm)},
          {"op_name", std::string(op)},
          {"kernel_source", std::string(kernel)},
          {"mla_dtype", std::string("bfloat16")},
          {"kv_cache_dtype", std::string(kv)},
          {"gemm_type", std::string("fp8_block")},
          {"num_heads", heads},
          {"batch_size", batch},
          {"isl", isl},
          {"step", step},
          {"latency", latency},
          {"power", 100.0}};
}

DsaContext Fp8BlockOp(KvQuant kv) {
  DsaContext op = GlmOp(64, kv);
  op.gemm_quant_mode = GemmQuant::kFp8Block;
  return op;
}

TEST(Dsa, TheTrtllmKernelIsPreferredAndTheOtherStandsIn) {
  MadeUpSystem system(Backend::kSglang);
  system.Put("dsa_context_module_perf",
             {BlockRow("dsa", "sglang_dsa_indexer_flashmla_sparse", "fp8", 64, 0, 128, 1, 1.0),
              BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 128, 1, 2.0),
              BlockRow("dsa", "sglang_dsa_indexer_flashmla_sparse", "int8", 64, 0, 128, 1, 3.0)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  EXPECT_EQ(BoundDsaContext(Fp8BlockOp(KvQuant::kFp8), db).Query(At(1, 128))->latency_ms, 2.0);
  EXPECT_EQ(BoundDsaContext(Fp8BlockOp(KvQuant::kInt8), db).Query(At(1, 128))->latency_ms, 3.0);
}

TEST(Dsa, ReuseLayersShareByFullFrac) {
  const Database db = OpenLatent(DatabaseMode::kSilicon);
  const auto ask = [&](double full_frac) {
    DsaContext op = GlmOp();
    op.full_frac = full_frac;
    op.scale_factor = 2.0;
    return BoundDsaContext(op, db).Query(At(2, 1500, 500));
  };
  const auto full = ask(1.0);
  const auto reuse = ask(0.0);
  const auto quarter = ask(0.25);
  ASSERT_TRUE(full && reuse && quarter);
  EXPECT_NE(full->latency_ms, reuse->latency_ms);
  EXPECT_DOUBLE_EQ(quarter->latency_ms, 0.25 * full->latency_ms + 0.75 * reuse->latency_ms);
  EXPECT_DOUBLE_EQ(quarter->energy_wms, 0.25 * full->energy_wms + 0.75 * reuse->energy_wms);
  EXPECT_EQ(ask(7.0)->latency_ms, full->latency_ms);  // not multiplied
}

TEST(Dsa, WithoutAnyReuseRowAllLayersAreFull) {
  MadeUpSystem system(Backend::kSglang);
  system.Put("dsa_context_module_perf",
             {BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 128, 1, 2.0)});
  DsaContext op = Fp8BlockOp(KvQuant::kFp8);
  op.full_frac = 0.25;
  EXPECT_EQ(BoundDsaContext(op, system.Open(DatabaseMode::kSilicon)).Query(At(1, 128))->latency_ms,
            2.0);
  // In the roofline the share holds without any table.
  op.full_frac = 0.0;
  const auto reuse = BoundDsaContext(op, system.Open(DatabaseMode::kSol)).Query(At(1, 9000));
  op.full_frac = 1.0;
  const auto full = BoundDsaContext(op, system.Open(DatabaseMode::kSol)).Query(At(1, 9000));
  EXPECT_LT(reuse->latency_ms, full->latency_ms);
}

TEST(Dsa, ReuseRowsOfAnotherFormatDoNotStandIn) {
  MadeUpSystem system(Backend::kSglang);
  system.Put(
      "dsa_context_module_perf",
      {BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 128, 1, 2.0),
       BlockRow("dsa_skip_indexer", "sglang_dsa_skip_indexer_trtllm", "int8", 64, 0, 128, 1, 1.0)});
  DsaContext op = Fp8BlockOp(KvQuant::kFp8);
  op.full_frac = 0.25;
  const auto silicon = BoundDsaContext(op, system.Open(DatabaseMode::kSilicon)).Query(At(1, 128));
  ASSERT_FALSE(silicon);
  EXPECT_EQ(silicon.error().kind, ErrorKind::kPerfDatabase);
}

// Rows of no time neither anchor a look-up nor tell a utilisation.
TEST(Dsa, ReuseRowsOfNoTimeAnswerNothing) {
  MadeUpSystem system(Backend::kSglang);
  system.Put(
      "dsa_context_module_perf",
      {BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 128, 1, 2.0),
       BlockRow("dsa_skip_indexer", "sglang_dsa_skip_indexer_trtllm", "fp8", 64, 0, 128, 1, 0.0)});
  DsaContext op = Fp8BlockOp(KvQuant::kFp8);
  op.full_frac = 0.25;
  const auto silicon = BoundDsaContext(op, system.Open(DatabaseMode::kSilicon)).Query(At(1, 200));
  ASSERT_FALSE(silicon);
  EXPECT_EQ(silicon.error().kind, ErrorKind::kPerfDatabase);
  const auto hybrid = BoundDsaContext(op, system.Open(DatabaseMode::kHybrid)).Query(At(1, 200));
  ASSERT_FALSE(hybrid);
  EXPECT_EQ(hybrid.error().kind, ErrorKind::kEmpiricalNotImplemented);
  // At the point itself the row stands as it is.
  EXPECT_EQ(BoundDsaContext(op, system.Open(DatabaseMode::kHybrid)).Query(At(1, 128))->latency_ms,
            0.25 * 2.0);
}

// Where cached tokens lie within the measured ones, samples keep that axis; beyond them the
// prefix-free rows answer at the full length.
TEST(Dsa, EstimatesWithinAndBeyondMeasuredPrefixes) {
  MadeUpSystem system(Backend::kSglang);
  system.Put("dsa_context_module_perf",
             {BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 1024, 1, 2.0),
              BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 2048, 1, 4.5),
              BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 1024, 1024, 1, 2.5)});
  const Database db = system.Open(DatabaseMode::kEmpirical);
  const BoundDsaContext block(Fp8BlockOp(KvQuant::kFp8), db);
  EXPECT_DOUBLE_EQ(block.Query(At(1, 1024, 1024))->latency_ms, 2.5);
  const BoundDsaContext roofline(Fp8BlockOp(KvQuant::kFp8), system.Open(DatabaseMode::kSol));
  const double utilisation = roofline.Query(At(1, 2048))->latency_ms / 4.5;
  const double sol = roofline.Query(At(1, 48, 2000))->latency_ms;  // 48 + 2000 = 2048
  EXPECT_DOUBLE_EQ(block.Query(At(1, 48, 2000))->latency_ms, sol / utilisation);
  // The window of tokens enters the roofline of the samples.
  DsaContext narrow = Fp8BlockOp(KvQuant::kFp8);
  narrow.index_topk = 512;
  EXPECT_DOUBLE_EQ(BoundDsaContext(narrow, db).Query(At(1, 1024, 1024))->latency_ms, 2.5);
}

TEST(Dsa, RatesComeBeforeTables) {
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid,
                                  DatabaseMode::kEmpirical, DatabaseMode::kSol}) {
    const auto result =
        BoundDsaGeneration(GlmOp<DsaGeneration>(), OpenLatent(mode, {}, "latent_old"))
            .Query(At(1, 100));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kMissingSystemFlops);
  }
}

TEST(Dsa, DecodeIgnoresContextParallelismAndItsWindow) {
  const Database db = OpenLatent(DatabaseMode::kHybrid);
  DsaGeneration op = GlmOp<DsaGeneration>();
  const auto plain = BoundDsaGeneration(op, db).Query(At(8, 9000));
  op.cp_size = 8;
  op.index_topk = 16;
  const auto other = BoundDsaGeneration(op, db).Query(At(8, 9000));
  ASSERT_TRUE(plain && other);
  EXPECT_EQ(plain->latency_ms, other->latency_ms);
}

Row KernelRow(std::int64_t batch, std::int64_t isl, std::int64_t step, double latency) {
  return {{"num_heads", std::int64_t{64}},
          {"batch_size", batch},
          {"isl", isl},
          {"step", step},
          {"latency", latency}};
}
Row ChoiceRow(std::string_view mode, std::int64_t batch, std::int64_t isl, std::int64_t step,
              double latency) {
  Row row = KernelRow(batch, isl, step, latency);
  row.emplace_back("score_mode", std::string(mode));
  return row;
}

class ContextParallel : public ::testing::Test {
 protected:
  ContextParallel() : system_(Backend::kSglang) {
    // A rank of four owns 256 of 1024 tokens.
    system_.Put("dsa_context_module_perf",
                {BlockRow("dsa", "sglang_dsa_indexer_flashmla_sparse", "fp8", 64, 0, 256, 1, 1.0),
                 BlockRow("dsa", "sglang_dsa_indexer_trtllm", "fp8", 64, 0, 256, 1, 50.0),
                 BlockRow("dsa_skip_indexer", "sglang_dsa_skip_indexer_flashmla_sparse", "fp8", 64,
                          0, 256, 1, 0.5)});
    system_.Put("glm5_mqa_logits_module_perf",
                {KernelRow(1, 256, 0, 0.02), KernelRow(1, 1024, 0, 0.4), KernelRow(4, 64, 0, 9.0)});
    system_.Put("glm5_topk_module_perf",
                {ChoiceRow("flat", 1, 256, 0, 0.01), ChoiceRow("top_last", 1, 1024, 0, 0.12),
                 ChoiceRow("top_last", 1, 1024, 1000, 0.32)});
    op_ = Fp8BlockOp(KvQuant::kFp8);
    op_.cp_size = 4;
  }

  // The all-gathers, as the collective answers them. No table: rooflines are enough here.
  double Gathers(std::uint32_t tokens, bool keys) const {
    double sum = 0;
    for (const double width : {128.0, 576.0}) {
      if (width == 128.0 && !keys) continue;
      Nccl gather;
      gather.scale_factor = 1.0;
      gather.hidden_size = width * tokens;
      gather.num_gpus = 4;
      gather.operation = "all_gather";
      sum += BoundOperator::Bind(gather, system_.Open(DatabaseMode::kSol)).Query({})->latency_ms;
    }
    return sum;
  }

  MadeUpSystem system_;
  DsaContext op_;
};

TEST_F(ContextParallel, NeedsTheCollectiveInSilicon) {
  const auto result = BoundDsaContext(op_, system_.Open(DatabaseMode::kSilicon)).Query(At(1, 1024));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
}

TEST_F(ContextParallel, BaseAndCorrectionAndGathers) {
  op_.scale_factor = 3.0;
  const Database db = system_.Open(DatabaseMode::kSol);
  const auto result = BoundDsaContext(op_, db).Query(At(1, 1024));
  ASSERT_TRUE(result) << result.error().message;
  DsaContext alone = op_;
  alone.cp_size = 1;
  alone.scale_factor = 1.0;
  const double base = BoundDsaContext(alone, db).Query(At(1, 256))->latency_ms;
  const double correction = (0.4 / 4 - 0.02) + (0.12 / 4 - 0.01);
  EXPECT_DOUBLE_EQ(result->latency_ms, (base + correction + Gathers(1024, true)) * 3.0);
  EXPECT_EQ(result->source, Source::kEstimated);
  EXPECT_EQ(result->energy_wms, 0);
  EXPECT_FALSE(result->has_sol);
}

TEST_F(ContextParallel, ReuseLayersGatherLatentsOnly) {
  op_.full_frac = 0.0;
  const Database db = system_.Open(DatabaseMode::kSol);
  const auto result = BoundDsaContext(op_, db).Query(At(1, 1024));
  ASSERT_TRUE(result);
  DsaContext alone = op_;
  alone.cp_size = 1;
  const double base = BoundDsaContext(alone, db).Query(At(1, 256))->latency_ms;
  EXPECT_DOUBLE_EQ(result->latency_ms, base + Gathers(1024, false));
}

TEST_F(ContextParallel, MeasuredKernelsAreTakenAtTheNearestLength) {
  const Database db = system_.Open(DatabaseMode::kSol);
  const latent::SparseKernels kernels(db, kGlm, 64);
  ASSERT_TRUE(kernels.RequireIndexer());
  // 640 is as far from 256 as from 1024: the smaller one.
  EXPECT_DOUBLE_EQ(*kernels.IndexerCorrection(1, 640, 160, 0, 4),
                   (0.02 / 4 - 0.02) + (0.12 / 4 - 0.01));
  // Between cached tokens the choice is interpolated, beyond them held.
  EXPECT_DOUBLE_EQ(*kernels.IndexerCorrection(1, 1024, 256, 500, 4),
                   (0.4 / 4 - 0.02) + (0.22 / 4 - 0.01));
  EXPECT_DOUBLE_EQ(*kernels.IndexerCorrection(1, 1024, 256, 99999, 4),
                   (0.4 / 4 - 0.02) + (0.32 / 4 - 0.01));
  // Batches 1 and 4 are the nearest to 2 and to 3.
  EXPECT_TRUE(kernels.IndexerCorrection(2, 1024, 256, 0, 4));
  const auto beyond = kernels.IndexerCorrection(3, 1024, 256, 0, 4);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::kPerfDatabase);
  EXPECT_NE(beyond.error().message.find("64"), std::string::npos);
}

TEST_F(ContextParallel, UnmeasuredKernelsAreMissingInEveryMode) {
  op_.num_heads = 32;
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid,
                                  DatabaseMode::kEmpirical, DatabaseMode::kSol}) {
    const auto result = BoundDsaContext(op_, system_.Open(mode)).Query(At(1, 1024));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
    EXPECT_NE(result.error().message.find("glm5_mqa_logits"), std::string::npos);
  }
}

TEST_F(ContextParallel, HasNoDecomposition) {
  op_.num_heads = 32;  // before any data is looked at
  const auto result = BoundDsaContext(op_, system_.Open(DatabaseMode::kSolFull)).Query(At(1, 1024));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST(ContextParallelKernels, AFileWithoutHeadCountsServesAll) {
  MadeUpSystem system(Backend::kSglang);
  Row row = KernelRow(1, 128, 0, 0.8);
  row.erase(row.begin());
  system.Put("glm5_mqa_logits_module_perf", {row});
  const Database db = system.Open(DatabaseMode::kSilicon);
  const latent::SparseKernels kernels(db, kGlm, 24);
  EXPECT_FALSE(kernels.RequireIndexer());  // the choice is missing still
  EXPECT_DOUBLE_EQ(*kernels.IndexerCorrection(1, 128, 64, 0, 2), 0.8 / 2 - 0.8);
}

TEST(DsaWeights, ProjectionsHaveTheirOwnFormats) {
  DsaContext v32;
  v32.scale_factor = 61;
  v32.num_heads = 16;
  v32.architecture = "DeepseekV32ForCausalLM";
  v32.gemm_quant_mode = GemmQuant::kNvfp4;
  v32.attn_projection_quant_modes = DsaProjectionQuants{GemmQuant::kBfloat16, GemmQuant::kBfloat16,
                                                        GemmQuant::kNvfp4, GemmQuant::kBfloat16};
  EXPECT_EQ(WeightBytes(v32), 4773249024.0);
  DsaGeneration glm = GlmOp<DsaGeneration>();
  glm.scale_factor = 78;
  EXPECT_EQ(WeightBytes(glm), 13541179392.0);
}

}  // namespace
}  // namespace infercast
