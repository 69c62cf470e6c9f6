// Operators made of operators: side by side, and either or.
#include "operators/composite.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "operators/made_up_rows.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;

Gemm Product(std::uint32_t n, std::uint32_t k, GemmQuant quant = GemmQuant::kBfloat16) {
  Gemm op;
  op.name = "g";
  op.scale_factor = 1;
  op.n = n;
  op.k = k;
  op.quant_mode = quant;
  op.scale_num_tokens = 1;
  return op;
}

const Operator kA = Product(4096, 1024);
const Operator kB = Product(5120, 2048);
const Operator kUnmeasured = Product(65536, 65536);
const Operator kNorm = Elementwise{.name = "norm",
                                   .scale_factor = 2,
                                   .bytes_per_token = 8192,
                                   .scale_num_tokens = 3,
                                   .seq_split = 2};

Operator Side(std::vector<Operator> a, std::vector<Operator> b) {
  return Overlap{.name = "overlap", .group_a = std::move(a), .group_b = std::move(b)};
}
Operator Either(Operator primary, std::vector<Operator> list) {
  Fallback op;
  op.name = "fallback";
  op.primary = Box<Operator>(std::move(primary));
  op.fallback = std::move(list);
  return op;
}

class CompositeTest : public ::testing::Test {
 protected:
  CompositeTest() : system_(Backend::kVllm) { system_.Put("gemm_perf", testing::GemmRows()); }

  Result<PerfResult> Ask(const Operator& op, DatabaseMode mode = DatabaseMode::kSilicon,
                         TransferPolicy policy = {}) {
    return BoundOperator::Bind(op, system_.Open(mode, policy)).Query({.num_tokens = 64});
  }
  void Expect(const Result<PerfResult>& r, double latency, double energy, Source source,
              Tier tier = Tier::kSilicon) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_DOUBLE_EQ(r->latency_ms, latency);
    EXPECT_DOUBLE_EQ(r->energy_wms, energy);
    EXPECT_EQ(r->source, source);
    EXPECT_EQ(r->tier, tier);
    EXPECT_FALSE(r->has_sol);
  }

  MadeUpSystem system_;
};

constexpr auto kHybrid = DatabaseMode::kHybrid;
constexpr auto kEmpirical = DatabaseMode::kEmpirical;
constexpr auto kSol = DatabaseMode::kSol;

TEST_F(CompositeTest, TheLongerGroupCountsAndBothSpendEnergy) {
  Expect(Ask(Side({kA}, {kB})), 0.048641999999999998, 17.16892, Source::kSilicon);
  Expect(Ask(Side({kA, kNorm}, {kB})), 0.048641999999999998, 17.16892, Source::kMixed);
  Expect(Ask(Side({kA}, {})), 0.018088, 4.522, Source::kSilicon);
  Expect(Ask(Side({kA, Side({}, {})}, {})), 0.018088, 4.522, Source::kSilicon);
  Expect(Ask(Side({}, {})), 0, 0, Source::kEmpirical);
  Expect(Ask(Side({kA}, {kB}), kSol), 0.021889024, 0, Source::kSol);
}

TEST_F(CompositeTest, TheWeakerOriginOfBothGroupsIsKept) {
  const auto r = Ask(Side({kA}, {Product(5120, 2048), Product(4608, 1536)}));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->origin.kind, OriginKind::kExtrapolated);
}

TEST_F(CompositeTest, TheFirstErrorOfAGroupIsTheAnswer) {
  EXPECT_EQ(Ask(Side({kUnmeasured}, {kA})).error().kind, ErrorKind::kPerfDatabase);
  EXPECT_EQ(Ask(Side({kA}, {Product(64, 64, GemmQuant::kNvfp4), kUnmeasured})).error().kind,
            ErrorKind::kMissingSystemFlops);
}

TEST_F(CompositeTest, TheListAnswersOnlyWhereThePrimaryIsUnmeasured) {
  Expect(Ask(Either(kA, {kB})), 0.018088, 4.522, Source::kSilicon);
  Expect(Ask(Either(kUnmeasured, {kA, kB})), 0.066729999999999998, 17.16892, Source::kSilicon);
  Expect(Ask(Either(kUnmeasured, {})), 0, 0, Source::kEmpirical);
  EXPECT_EQ(Ask(Either(kUnmeasured, {kUnmeasured})).error().kind, ErrorKind::kPerfDatabase);
}

TEST_F(CompositeTest, AnEstimateOfThePrimaryDoesNotCountInAHybridDatabase) {
  Expect(Ask(Either(kUnmeasured, {kA}), kHybrid), 0.018088, 4.522, Source::kSilicon);
  // The list itself may be estimated.
  Expect(Ask(Either(kUnmeasured, {kUnmeasured}), kHybrid), 18.94153846153846, 0, Source::kEmpirical,
         Tier::kEmpirical);
  // Elsewhere the primary answers as its database does.
  Expect(Ask(Either(kUnmeasured, {kA}), kEmpirical), 18.94153846153846, 0, Source::kEmpirical,
         Tier::kEmpirical);
}

TEST_F(CompositeTest, APrimaryKeepsItsRoofline) {
  const auto r = Ask(Either(kUnmeasured, {kA}), kSol);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 8.606711808);
  EXPECT_TRUE(r->has_sol);
}

TEST_F(CompositeTest, OtherErrorsOfThePrimaryAreTheAnswer) {
  EXPECT_EQ(Ask(Either(Product(4096, 1024, GemmQuant::kNvfp4), {kA})).error().kind,
            ErrorKind::kMissingSystemFlops);
  EXPECT_EQ(Ask(Either(Product(4096, 1024, GemmQuant::kSq), {kA}), kEmpirical,
                {false, false, false, false})
                .error()
                .kind,
            ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(CompositeTest, Weights) {
  EXPECT_EQ(WeightBytes(Side({kA}, {kB})), 29360128);
  EXPECT_EQ(WeightBytes(Either(kA, {kB})), 8388608);
  EXPECT_EQ(WeightBytes(Either(kNorm, {kA, kB})), 29360128);
}

}  // namespace
}  // namespace infercast
