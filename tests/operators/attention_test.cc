// Attention in prefill, decode and encoder: lanes, energy, the ladder of estimates.
#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "operators/made_up_rows.h"

namespace infercast {
namespace {

using testing::DecodeRow;
using testing::EncoderRow;
using testing::MadeUpSystem;
using testing::PrefillRow;
using testing::Row;

GenerationAttention Decode(std::vector<std::string> lanes, std::uint32_t head_size = 128) {
  GenerationAttention op;
  op.name = "generation_attention";
  op.scale_factor = 1;
  op.n = 8;
  op.n_kv = 8;
  op.head_size = head_size;
  op.lane_order = std::move(lanes);
  return op;
}

ContextAttention Prefill(std::uint32_t head_size = 128, std::uint32_t window = 0) {
  ContextAttention op;
  op.name = "context_attention";
  op.scale_factor = 1;
  op.n = 8;
  op.n_kv = 8;
  op.head_size = head_size;
  op.window_size = window;
  return op;
}

Result<PerfResult> Ask(const MadeUpSystem& system, const Operator& op, const QueryContext& ctx,
                       DatabaseMode mode = DatabaseMode::kSilicon, TransferPolicy policy = {}) {
  return BoundOperator::Bind(op, system.Open(mode, policy)).Query(ctx);
}

MadeUpSystem& Put(MadeUpSystem& system, const char* table, std::vector<Row> rows) {
  system.Put(table, rows);
  return system;
}

class DecodeTest : public ::testing::Test {
 protected:
  DecodeTest() : system_(Backend::kVllm) {
    Put(system_, "generation_attention_perf",
        {DecodeRow("b_first", 99, 4, 0.01, 400), DecodeRow("b_first", 199, 4, 0.02, 500),
         DecodeRow("a_second", 99, 4, 0.05, 100), DecodeRow("a_second", 99, 1, 0.03, 100, 64)});
  }
  MadeUpSystem system_;
};

TEST_F(DecodeTest, AveragesFiveLengthsAroundTheStep) {
  // Lengths 135, 142, 150, 157 and 165 between the two points.
  const auto r = Ask(system_, Decode({"b_first"}), {.batch_size = 4, .s = 150});
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_DOUBLE_EQ(r->latency_ms, 0.014979999999999999);
  EXPECT_DOUBLE_EQ(r->energy_wms, 6.7492599999999996);
  EXPECT_EQ(r->source, Source::kSilicon);
  EXPECT_EQ(r->origin.kind, OriginKind::kInterpolated);
}

TEST_F(DecodeTest, AnUnknownLaneIsServedByTheFirstLoaded) {
  const auto first = Ask(system_, Decode({"default"}), {.batch_size = 4, .s = 150});
  ASSERT_TRUE(first);
  EXPECT_DOUBLE_EQ(first->latency_ms, 0.014979999999999999);
  const auto none = Ask(system_, Decode({}), {.batch_size = 4, .s = 150});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->latency_ms, first->latency_ms);
}

TEST_F(DecodeTest, APreferredLaneServesTheWholeQuery) {
  const auto r = Ask(system_, Decode({"missing", "a_second"}), {.batch_size = 4, .s = 100});
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 0.05000000000000001);
  EXPECT_DOUBLE_EQ(r->energy_wms, 5.0000000000000018);
}

TEST_F(DecodeTest, TheImbalanceAndTheLayersMultiply) {
  GenerationAttention op = Decode({"b_first"});
  op.scale_factor = 3;
  const auto r =
      Ask(system_, op, {.batch_size = 4, .s = 150, .gen_seq_imbalance_correction_scale = 2.0});
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 6 * 0.014979999999999999);
}

TEST_F(DecodeTest, AnotherHeadSizeIsBorrowedOnlyWhereAllowed) {
  const GenerationAttention op = Decode({"b_first"}, 96);
  const QueryContext ctx{.batch_size = 4, .s = 100};
  EXPECT_EQ(Ask(system_, op, ctx).error().kind, ErrorKind::kPerfDatabase);
  const auto r = Ask(system_, op, ctx, DatabaseMode::kHybrid);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->tier, Tier::kXshape);
  EXPECT_EQ(r->origin.kind, OriginKind::kTransferred);
  EXPECT_EQ(r->energy_wms, 0);
  // The utilisation of head size 128 at (8, 4, 100) on a roofline of three quarters.
  EXPECT_NEAR(r->latency_ms, 0.75 * 0.01, 1e-12);
  EXPECT_EQ(Ask(system_, op, ctx, DatabaseMode::kHybrid, {.xshape = false}).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(DecodeTest, ZeroKvHeadsMeansOneForEachHead) {
  GenerationAttention op = Decode({"b_first"});
  const QueryContext ctx{.batch_size = 4, .s = 150};
  const auto whole = Ask(system_, op, ctx, DatabaseMode::kSol);
  op.n_kv = 0;
  const auto zero = Ask(system_, op, ctx, DatabaseMode::kSol);
  ASSERT_TRUE(whole && zero);
  EXPECT_EQ(whole->latency_ms, zero->latency_ms);
  EXPECT_EQ(Ask(system_, op, ctx)->latency_ms, 0.014979999999999999);
}

class PrefillTest : public ::testing::Test {
 protected:
  PrefillTest() : system_(Backend::kVllm, "  sm_version: 90\n") {
    Put(system_, "context_attention_perf",
        {PrefillRow(100, 1, 0.01, 400), PrefillRow(200, 1, 0.04, 500)});
  }
  MadeUpSystem system_;
};

TEST_F(PrefillTest, CachedTokensTakeTheirShareOfTheWork) {
  const auto r = Ask(system_, Prefill(), {.batch_size = 1, .s = 100, .prefix = 50});
  ASSERT_TRUE(r) << r.error().message;
  // 150 tokens blend to (0.1 + 0.1 / 2)^2 ms, of which 1 - (50 / 150)^2 is left, plus the kernels
  // around: rotary twice 4096 elements of 2 bytes, two writes of 2048 bytes.
  const double around =
      1.1 * (2 * ((4096 / (1e12 * 0.8) + 3e-6) * 1000) + 2 * ((2048 / (1e12 * 0.8) + 3e-6) * 1000));
  EXPECT_NEAR(r->latency_ms, 0.0225 * (1 - 1 / 9.0) + around, 1e-12);
  EXPECT_DOUBLE_EQ(r->energy_wms, 9.0000000000000018);
  EXPECT_EQ(r->source, Source::kMixed);
  EXPECT_EQ(r->origin.kind, OriginKind::kInterpolated);
}

TEST_F(PrefillTest, NothingNewCostsOnlyTheKernelsAround) {
  const auto r = Ask(system_, Prefill(), {.batch_size = 1, .s = 0, .prefix = 100});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->source, Source::kEmpirical);
  EXPECT_EQ(r->energy_wms, 0);
  EXPECT_EQ(Ask(system_, Prefill(), {.batch_size = 1, .s = 0}).error().kind,
            ErrorKind::kPerfDatabase);
}

TEST_F(PrefillTest, AnUnmeasuredWindowBorrowsFullAttention) {
  const QueryContext ctx{.batch_size = 1, .s = 200};
  EXPECT_EQ(Ask(system_, Prefill(128, 64), ctx).error().kind, ErrorKind::kPerfDatabase);
  const auto windowed = Ask(system_, Prefill(128, 64), ctx, DatabaseMode::kHybrid);
  const auto full = Ask(system_, Prefill(), ctx, DatabaseMode::kEmpirical);
  ASSERT_TRUE(windowed && full);
  EXPECT_EQ(windowed->tier, Tier::kEmpirical);
  EXPECT_LE(windowed->latency_ms, full->latency_ms);
}

TEST_F(PrefillTest, AnotherHeadSizeIsCorrectedByHowWellItUsuallyDoes) {
  const QueryContext ctx{.batch_size = 1, .s = 200};
  const auto small = Ask(system_, Prefill(64), ctx, DatabaseMode::kEmpirical);
  const auto own = Ask(system_, Prefill(), ctx, DatabaseMode::kEmpirical);
  ASSERT_TRUE(small && own);
  EXPECT_EQ(small->tier, Tier::kXshape);
  EXPECT_EQ(own->tier, Tier::kEmpirical);
  // Half the work at 0.60 of the utilisation, besides the kernels around.
  const auto around = [&](std::uint32_t h) {
    const double q = 8 * h;
    return 1.1 * (2 * ((4 * q / (1e12 * 0.8) + 3e-6) * 1000) +
                  2 * ((2 * q / (1e12 * 0.8) + 3e-6) * 1000));
  };
  EXPECT_NEAR(small->latency_ms - around(64), (own->latency_ms - around(128)) / 2 / 0.60, 1e-12);
}

TEST_F(PrefillTest, ContextParallelismCountsTheFirstAndTheLastChunk) {
  ContextAttention op = Prefill();
  op.cp_size = 2;
  const auto r = Ask(system_, op, {.batch_size = 1, .s = 200}, DatabaseMode::kSol);
  ASSERT_TRUE(r);
  const auto chunk = [](double s, double p) {
    const double full = s + p;
    const double math = 2 * (full * full - p * p) * 8 * 128 / 1e14 * 1000;
    const double memory = (4.0 * 8 * s * 128 + 2 * 2.0 * 8 * full * 128) / 1e12 * 1000;
    return std::max(math, memory);
  };
  const double around = 1.1 * (2 * 4096 + 2 * 2048) / 1e12 * 1000;
  EXPECT_NEAR(r->latency_ms, chunk(50, 0) + chunk(50, 150) + around, 1e-15);
  EXPECT_TRUE(r->has_sol);
}

TEST(EncoderAttentionTest, RotaryEmbeddingIsMemoryTraffic) {
  MadeUpSystem system(Backend::kVllm);
  Put(system, "encoder_attention_perf",
      {EncoderRow(8, 128, 1, 0.001711, 120), EncoderRow(8, 512, 1, 0.016489, 126)});
  EncoderAttention op;
  op.name = "encoder_attention";
  op.scale_factor = 2;
  op.n = 8;
  op.head_size = 64;
  const QueryContext ctx{.batch_size = 1, .s = 512};
  const auto plain = Ask(system, op, ctx);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_DOUBLE_EQ(plain->latency_ms, 2 * 0.016489);
  EXPECT_EQ(plain->source, Source::kSilicon);
  op.partial_rotary_factor = 0.5;
  const auto rotary = Ask(system, op, ctx);
  ASSERT_TRUE(rotary);
  const double bytes = 4.0 * 8 * 64 * 512;
  EXPECT_NEAR(rotary->latency_ms,
              2 * (0.016489 + (bytes / (1e12 * 0.8) + 3e-6) * 1000 * (2 * 0.5) * 1.1), 1e-14);
  EXPECT_EQ(rotary->source, Source::kMixed);
  EXPECT_EQ(rotary->energy_wms, plain->energy_wms);
  op.head_size = 80;
  EXPECT_EQ(Ask(system, op, ctx, DatabaseMode::kHybrid).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
}

TEST(VisionTest, IsFreeWithoutImagesAndTheSumOfItsPartsWithThem) {
  MadeUpSystem system(Backend::kVllm);
  Vision op;
  op.name = "vision";
  op.scale_factor = 3;
  op.num_layers = 2;
  op.num_heads = 8;
  op.head_size = 64;
  op.hidden_size = 512;
  op.intermediate_size = 2048;
  const auto none = Ask(system, op, {.num_image_tokens = 0});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->latency_ms, 0);
  EXPECT_EQ(none->origin.kind, OriginKind::kExact);
  EXPECT_EQ(Ask(system, op, {.num_image_tokens = 64}).error().kind, ErrorKind::kPerfDatabase);

  const auto some = Ask(system, op, {.num_image_tokens = 64}, DatabaseMode::kSol);
  ASSERT_TRUE(some);
  const auto gemm = [](double n, double k) {
    const double m = 64;
    return std::max(2 * m * n * k / 1e14 * 1000, 2 * (m * n + m * k + n * k) / 1e12 * 1000);
  };
  const double attention =
      std::max(4.0 * 64 * 64 * 8 * 64 / 1e14 * 1000, 8.0 * 8 * 64 * 64 / 1e12 * 1000);
  const double norms = 2 * (2.0 * 512 * 64 / 1e12 * 1000);
  EXPECT_NEAR(some->latency_ms,
              6 * (gemm(1536, 512) + attention + gemm(512, 512) + gemm(2048, 512) +
                   gemm(512, 2048) + norms),
              1e-14);
  EXPECT_EQ(some->source, Source::kSilicon);
  EXPECT_FALSE(some->has_sol);
}

}  // namespace
}  // namespace infercast
