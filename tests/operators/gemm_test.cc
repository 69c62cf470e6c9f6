// Matrix products: modes, the ladder of estimates, static quantisation, provenance and errors.
#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "operators/made_up_rows.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;

Gemm Product(GemmQuant quant, std::uint32_t n, std::uint32_t k) {
  Gemm op;
  op.name = "gemm";
  op.scale_factor = 1;
  op.n = n;
  op.k = k;
  op.quant_mode = quant;
  op.scale_num_tokens = 1;
  return op;
}

class GemmTest : public ::testing::Test {
 protected:
  GemmTest() : system_(Backend::kVllm) {
    system_.Put("gemm_perf", testing::GemmRows());
    system_.Put("computescale_perf", testing::ComputeScaleRows());
    system_.Put("scale_matrix_perf", testing::ScaleMatrixRows());
  }
  Result<PerfResult> Ask(const Gemm& op, std::uint32_t x,
                         DatabaseMode mode = DatabaseMode::kSilicon, TransferPolicy policy = {}) {
    bound_.emplace(BoundOperator::Bind(op, system_.Open(mode, policy)));
    return bound_->Query({.num_tokens = x});
  }
  void Expect(const Result<PerfResult>& r, double latency, double energy, Source source,
              Tier tier = Tier::kSilicon) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_DOUBLE_EQ(r->latency_ms, latency);
    EXPECT_DOUBLE_EQ(r->energy_wms, energy);
    EXPECT_EQ(r->source, source);
    EXPECT_EQ(r->tier, tier);
  }
  static void ExpectError(const Result<PerfResult>& r, ErrorKind kind) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().kind, kind) << r.error().message;
  }

  MadeUpSystem system_;
  std::optional<BoundOperator> bound_;  // of the last question: answers point into it
};

constexpr auto kBf16 = GemmQuant::kBfloat16;
constexpr auto kHybrid = DatabaseMode::kHybrid;
constexpr auto kEmpirical = DatabaseMode::kEmpirical;
constexpr auto kSol = DatabaseMode::kSol;
constexpr TransferPolicy kNoTransfer{false, false, false, false};

TEST_F(GemmTest, MeasuredAnswersSayHowFarTheyWent) {
  auto r = Ask(Product(kBf16, 4096, 1024), 16);
  Expect(r, 0.024436, 4.8872, Source::kSilicon);
  EXPECT_EQ(r->origin.kind, OriginKind::kPoint);
  ASSERT_NE(r->origin.source, nullptr);
  EXPECT_EQ(r->origin.source->version, "1.0.0");
  r = Ask(Product(kBf16, 4096, 1024), 40);
  Expect(r, 0.020865250000000002, 4.7468443750000011, Source::kSilicon);
  EXPECT_EQ(r->origin.kind, OriginKind::kInterpolated);
  r = Ask(Product(kBf16, 4096, 1024), 4096);
  Expect(r, 0.68719719884057973, 171.79929971014496, Source::kSilicon);
  EXPECT_EQ(r->origin.kind, OriginKind::kExtrapolated);
  EXPECT_FLOAT_EQ(r->origin.octaves, 5.0F);  // 128 to 4096
  r = Ask(Product(kBf16, 4608, 1536), 64);
  EXPECT_EQ(r->origin.kind, OriginKind::kExtrapolated);
  EXPECT_NEAR(r->origin.octaves, 0.442, 0.001);
}

TEST_F(GemmTest, RowsBelowTheSpeedOfLightAreRaised) {
  Expect(Ask(Product(kBf16, 8192, 8192), 16), 0.13474201599999999, 20, Source::kSilicon);
}

TEST_F(GemmTest, TokensAreScaledThenSplit) {
  Gemm op = Product(kBf16, 4096, 1024);
  op.scale_num_tokens = 3;
  op.seq_split = 4;
  op.scale_factor = 2.5;  // ceil(floor(200 / 3) / 4) = 17
  Expect(Ask(op, 200), 0.060676718749999997, 12.2111896484375, Source::kSilicon);
  op.scale_num_tokens = 0;
  op.seq_split = 0;
  op.scale_factor = -1;
  Expect(Ask(op, 16), -0.024436, -4.8872, Source::kSilicon);
}

TEST_F(GemmTest, EstimatesComeFromTheFormatsOwnRows) {
  Expect(Ask(Product(kBf16, 4096, 1024), 64, kEmpirical), 0.018088, 0, Source::kEmpirical,
         Tier::kEmpirical);
  Expect(Ask(Product(kBf16, 4608, 1536), 100, kEmpirical), 0.030822307754736027, 0,
         Source::kEmpirical, Tier::kEmpirical);
  const auto r = Ask(Product(kBf16, 65536, 65536), 64, kHybrid);
  Expect(r, 18.94153846153846, 0, Source::kEmpirical, Tier::kEmpirical);
  EXPECT_EQ(r->origin.kind, OriginKind::kEstimated);
  EXPECT_EQ(r->origin.donor, nullptr);
  Expect(Ask(Product(kBf16, 4096, 1024), 40, kHybrid), 0.020865250000000002, 4.7468443750000011,
         Source::kSilicon);
}

TEST_F(GemmTest, EstimatesBorrowFromOtherFormatsWhereAllowed) {
  auto r = Ask(Product(GemmQuant::kInt8Wo, 4096, 1024), 40, kHybrid);
  Expect(r, 0.012954662918901808, 0, Source::kEmpirical, Tier::kXprofile);
  EXPECT_EQ(r->origin.kind, OriginKind::kTransferred);
  ASSERT_NE(r->origin.donor, nullptr);
  EXPECT_EQ(*r->origin.donor, "bfloat16");
  r = Ask(Product(GemmQuant::kFp8Block, 4096, 4096), 40, kHybrid);
  Expect(r, 0.041108019880989943, 0, Source::kEmpirical, Tier::kXquant);
  ASSERT_NE(r->origin.donor, nullptr);
  EXPECT_EQ(*r->origin.donor, "fp8");
  ExpectError(Ask(Product(GemmQuant::kInt8Wo, 4096, 1024), 40, kHybrid, kNoTransfer),
              ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(GemmTest, MissingFiguresGoBeforeMissingRows) {
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, kHybrid, kEmpirical, kSol, DatabaseMode::kSolFull}) {
    ExpectError(Ask(Product(GemmQuant::kNvfp4, 4096, 1024), 40, mode),
                ErrorKind::kMissingSystemFlops);
  }
  ExpectError(Ask(Product(GemmQuant::kSq, 4096, 1024), 40), ErrorKind::kPerfDatabase);
  ExpectError(Ask(Product(kBf16, 65536, 65536), 64), ErrorKind::kPerfDatabase);
}

TEST_F(GemmTest, SpeedOfLight) {
  const auto r = Ask(Product(kBf16, 4096, 1024), 40, kSol);
  Expect(r, 0.0087982080000000001, 0, Source::kSol);
  EXPECT_TRUE(r->has_sol);
  EXPECT_EQ(r->origin.kind, OriginKind::kSpeedOfLight);
}

TEST_F(GemmTest, SpeedOfLightMayStandInBelowTheGrid) {
  Gemm op = Product(kBf16, 65536, 65536);
  op.below_grid_sol = true;
  const auto r = Ask(op, 64);
  Expect(r, 8.606711808, 0, Source::kSol);
  EXPECT_EQ(r->origin.kind, OriginKind::kSpeedOfLight);
  op.quant_mode = GemmQuant::kSq;  // a format without any row still misses
  ExpectError(Ask(op, 64), ErrorKind::kPerfDatabase);
}

TEST_F(GemmTest, StaticQuantisationTakesTheDynamicPartOff) {
  Gemm op = Product(GemmQuant::kFp8Static, 4096, 4096);
  Expect(Ask(op, 64), 0.043524096737907761, 9.5862706431943465, Source::kEstimated);
  Expect(Ask(op, 64, kEmpirical), 0.036447922169243259, 0, Source::kEstimated, Tier::kEmpirical);
  op.low_precision_input = true;
  Expect(Ask(op, 64), 0.039791813273340831, 9.1666091638713887, Source::kEstimated);
  const auto beyond = Ask(op, 4096);
  Expect(beyond, 1.1624000000000001, 331.70399999999995, Source::kEstimated);
  EXPECT_EQ(beyond->origin.kind, OriginKind::kExtrapolated);
  Expect(Ask(op, 64, kEmpirical), 0.032966056884269165, 0, Source::kEstimated, Tier::kEmpirical);
  Expect(Ask(op, 64, kSol), 0.017301504000000002, 0, Source::kEstimated);
}

TEST_F(GemmTest, StaticQuantisationNeedsItsTables) {
  MadeUpSystem bare(Backend::kVllm);
  bare.Put("gemm_perf", testing::GemmRows());
  const Operator op = Product(GemmQuant::kFp8Static, 4096, 4096);
  const QueryContext ctx{.num_tokens = 64};
  ExpectError(BoundOperator::Bind(op, bare.Open(DatabaseMode::kSilicon)).Query(ctx),
              ErrorKind::kPerfDatabase);
  ExpectError(BoundOperator::Bind(op, bare.Open(kHybrid)).Query(ctx),
              ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(GemmTest, AScaleThatCostsNothingIsEstimatedAsNothing) {
  // The nearest measured point to (1, 1024) is itself, at 0 ms: nothing is taken off.
  Gemm op = Product(GemmQuant::kFp8Static, 4096, 1024);
  const auto with = Ask(op, 1, kEmpirical);
  op.quant_mode = GemmQuant::kFp8;
  const auto plain = Ask(op, 1, kEmpirical);
  ASSERT_TRUE(with && plain);
  EXPECT_EQ(with->latency_ms, plain->latency_ms);
}

TEST_F(GemmTest, NoTableIsAMissingMeasurement) {
  const MadeUpSystem empty(Backend::kVllm);
  const Operator op = Product(kBf16, 4096, 1024);
  const QueryContext ctx{.num_tokens = 64};
  ExpectError(BoundOperator::Bind(op, empty.Open(DatabaseMode::kSilicon)).Query(ctx),
              ErrorKind::kPerfDatabase);
  ExpectError(BoundOperator::Bind(op, empty.Open(kEmpirical)).Query(ctx),
              ErrorKind::kEmpiricalNotImplemented);
}

}  // namespace
}  // namespace infercast
