// Routed expert computation: look-ups, the ladder of estimates, rooflines and errors.
#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

constexpr std::string_view kUniform = "uniform";

Row MoeRow(std::string_view quant, std::int64_t hidden, std::int64_t inter, std::int64_t topk,
           std::int64_t experts, std::int64_t tokens, double latency, double power,
           std::string_view kernel = "kernel", std::string_view distribution = kUniform) {
  return {{"moe_dtype", std::string(quant)},
          {"distribution", std::string(distribution)},
          {"kernel_source", std::string(kernel)},
          {"num_tokens", tokens},
          {"hidden_size", hidden},
          {"inter_size", inter},
          {"topk", topk},
          {"num_experts", experts},
          {"moe_tp_size", std::int64_t{1}},
          {"moe_ep_size", std::int64_t{1}},
          {"latency", latency},
          {"power", power}};
}

// Two shapes and a lone point in bf16, one shape in fp8.
std::vector<Row> Rows() {
  return {MoeRow("bfloat16", 2048, 1024, 4, 32, 1, 0.1, 200.0),
          MoeRow("bfloat16", 2048, 1024, 4, 32, 16, 0.2, 250.0),
          MoeRow("bfloat16", 2048, 1024, 4, 32, 256, 0.9, 350.0),
          MoeRow("bfloat16", 2048, 1024, 4, 32, 4096, 6.0, 600.0),
          MoeRow("bfloat16", 4096, 1024, 8, 64, 1, 0.15, 200.0),
          MoeRow("bfloat16", 4096, 1024, 8, 64, 256, 1.4, 350.0),
          MoeRow("bfloat16", 2048, 512, 4, 32, 1024, 0.8, 300.0),
          MoeRow("fp8", 2048, 1024, 4, 32, 1, 0.08, 200.0),
          MoeRow("fp8", 2048, 1024, 4, 32, 256, 0.6, 350.0)};
}

Moe Op(MoeQuant quant, std::uint32_t hidden, std::uint32_t inter, std::uint32_t topk,
       std::uint32_t experts) {
  Moe op;
  op.name = "moe";
  op.scale_factor = 1.0;
  op.hidden_size = hidden;
  op.inter_size = inter;
  op.topk = topk;
  op.num_experts = experts;
  op.moe_tp_size = 1;
  op.moe_ep_size = 1;
  op.attention_dp_size = 1;
  op.quant_mode = quant;
  op.workload_distribution = kUniform;
  op.is_gated = true;
  return op;
}

Result<PerfResult> Ask(const Moe& op, const Database& db, std::uint32_t tokens) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return BoundOperator::Bind(op, db).Query(ctx);
}

ErrorKind KindOf(const Result<PerfResult>& result) {
  return result ? ErrorKind::kInternal : result.error().kind;
}

class MoeRules : public ::testing::Test {
 protected:
  MoeRules() { system_.Put("moe_perf", Rows()); }

  // The answer in a mode, which must exist.
  PerfResult Answer(const Moe& op, std::uint32_t tokens, DatabaseMode mode,
                    TransferPolicy policy = {}) const {
    const auto result = Ask(op, system_.Open(mode, policy), tokens);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result.value_or(PerfResult{});
  }

  MadeUpSystem system_{Backend::kVllm};
  const Moe op_ = Op(MoeQuant::kBfloat16, 2048, 1024, 4, 32);
};

TEST_F(MoeRules, MeasuredPointBetweenAndBeyond) {
  const PerfResult point = Answer(op_, 16, DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(point.latency_ms, 0.2);
  EXPECT_DOUBLE_EQ(point.energy_wms, 50.0);
  EXPECT_EQ(point.source, Source::kSilicon);
  EXPECT_EQ(point.origin.kind, OriginKind::kPoint);

  const PerfResult between = Answer(op_, 100, DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(between.latency_ms, 0.44499999999999995);
  EXPECT_DOUBLE_EQ(between.energy_wms, 126.82499999999999);
  EXPECT_EQ(between.origin.kind, OriginKind::kInterpolated);

  const PerfResult beyond = Answer(op_, 10000, DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(beyond.latency_ms, 14.6484375);
  EXPECT_DOUBLE_EQ(beyond.energy_wms, 8789.0625);
  EXPECT_EQ(beyond.origin.kind, OriginKind::kExtrapolated);
  EXPECT_GT(beyond.origin.octaves, 1.0F);
}

TEST_F(MoeRules, TokensOfAllAttentionRanksTogether) {
  Moe op = op_;
  op.attention_dp_size = 4;
  EXPECT_DOUBLE_EQ(Answer(op, 25, DatabaseMode::kSilicon).latency_ms, 0.44499999999999995);
  op.attention_dp_size = 0;
  EXPECT_DOUBLE_EQ(Answer(op, 100, DatabaseMode::kSilicon).latency_ms, 0.44499999999999995);
}

TEST_F(MoeRules, ScaleMultipliesLatencyAndEnergy) {
  Moe op = op_;
  op.scale_factor = 3.0;
  const PerfResult result = Answer(op, 16, DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(result.latency_ms, 0.6000000000000001);
  EXPECT_DOUBLE_EQ(result.energy_wms, 150.0);
}

TEST_F(MoeRules, LonePointHoldsAboveAndRefusesBelow) {
  const Moe op = Op(MoeQuant::kBfloat16, 2048, 512, 4, 32);
  const PerfResult above = Answer(op, 2048, DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(above.latency_ms, 1.6);
  EXPECT_DOUBLE_EQ(above.energy_wms, 480.0);
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon), 512)), ErrorKind::kPerfDatabase);
  const PerfResult estimated = Answer(op, 512, DatabaseMode::kHybrid);
  EXPECT_DOUBLE_EQ(estimated.latency_ms, 0.69661458333333337);
  EXPECT_EQ(estimated.tier, Tier::kEmpirical);
  EXPECT_EQ(estimated.origin.kind, OriginKind::kEstimated);
}

TEST_F(MoeRules, UnmeasuredShapeIsMissing) {
  const Moe op = Op(MoeQuant::kBfloat16, 2048, 768, 4, 32);
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon), 64)), ErrorKind::kPerfDatabase);
}

TEST_F(MoeRules, UnknownDistributionIsAnsweredByTheEvenOne) {
  Moe op = op_;
  op.workload_distribution = "power_law_1.2";
  EXPECT_DOUBLE_EQ(Answer(op, 16, DatabaseMode::kSilicon).latency_ms, 0.2);
}

TEST_F(MoeRules, BorrowsFromTheNearestShape) {
  const Database db = system_.Open(DatabaseMode::kHybrid);  // the donor's name lives in its store
  const auto result = Ask(Op(MoeQuant::kBfloat16, 3072, 1024, 8, 64), db, 64);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_DOUBLE_EQ(result->latency_ms, 0.99510160611964438);
  EXPECT_EQ(result->energy_wms, 0.0);
  EXPECT_EQ(result->source, Source::kEmpirical);
  EXPECT_EQ(result->tier, Tier::kXshape);
  EXPECT_EQ(result->origin.kind, OriginKind::kTransferred);
  ASSERT_NE(result->origin.donor, nullptr);
  EXPECT_EQ(*result->origin.donor, "bfloat16 topk=8 experts=64 hidden=4096 inter=1024");
}

TEST_F(MoeRules, BorrowsFromAFormatOfTheSameCosts) {
  const PerfResult result =
      Answer(Op(MoeQuant::kFp8Block, 2048, 1024, 4, 32), 64, DatabaseMode::kHybrid);
  EXPECT_DOUBLE_EQ(result.latency_ms, 0.59829768627066615);
  EXPECT_EQ(result.tier, Tier::kXquant);
}

TEST_F(MoeRules, BorrowsFromTheClosestOtherFormat) {
  // bf16 and fp8 are equally far from int4: the one measured first stands in.
  const PerfResult tie =
      Answer(Op(MoeQuant::kInt4Wo, 2048, 1024, 4, 32), 64, DatabaseMode::kHybrid);
  EXPECT_DOUBLE_EQ(tie.latency_ms, 0.61986225283270391);
  EXPECT_EQ(tie.tier, Tier::kXprofile);
  const PerfResult fp8 =
      Answer(Op(MoeQuant::kW4afp8, 2048, 1024, 4, 32), 64, DatabaseMode::kHybrid);
  EXPECT_DOUBLE_EQ(fp8.latency_ms, 0.79773024836088835);
  EXPECT_EQ(fp8.tier, Tier::kXprofile);
}

TEST_F(MoeRules, PolicyClosesRungs) {
  const Moe op = Op(MoeQuant::kBfloat16, 3072, 1024, 8, 64);
  const TransferPolicy only_profile{false, false, true, false};
  const PerfResult result = Answer(op, 64, DatabaseMode::kHybrid, only_profile);
  EXPECT_DOUBLE_EQ(result.latency_ms, 2.7057767060654645);
  EXPECT_EQ(result.tier, Tier::kXprofile);
  const TransferPolicy none{false, false, false, false};
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kHybrid, none), 64)),
            ErrorKind::kEmpiricalNotImplemented);
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon, none), 64)),
            ErrorKind::kPerfDatabase);
}

TEST_F(MoeRules, RooflineNeedsNoTableAndKeepsBothBounds) {
  const MadeUpSystem empty{Backend::kVllm};
  Moe op = op_;
  op.scale_factor = 2.0;
  const auto result = Ask(op, empty.Open(DatabaseMode::kSol), 100);
  ASSERT_TRUE(result);
  // 400 routed tokens x 2048 x 1024 x 3 products x 2 operations at 1e14/s, twice.
  EXPECT_DOUBLE_EQ(result->sol_math_ms, 2 * (400.0 * 2048 * 1024 * 6 / 1e14 * 1000));
  EXPECT_DOUBLE_EQ(
      result->sol_mem_ms,
      2 * ((400.0 * 2048 * 2 + 400.0 * 1024 * 3 + 2048.0 * 1024 * 3 * 32) * 2 / 1e12 * 1000));
  EXPECT_EQ(result->latency_ms, std::max(result->sol_math_ms, result->sol_mem_ms));
  EXPECT_EQ(result->source, Source::kSol);
  EXPECT_TRUE(result->has_sol);
}

TEST_F(MoeRules, MissingRateComesBeforeMissingData) {
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid,
                                  DatabaseMode::kEmpirical, DatabaseMode::kSol}) {
    EXPECT_EQ(KindOf(Ask(Op(MoeQuant::kNvfp4, 1, 1, 1, 1), system_.Open(mode), 64)),
              ErrorKind::kMissingSystemFlops)
        << ToString(mode);
  }
}

TEST_F(MoeRules, NoTokens) {
  EXPECT_EQ(KindOf(Ask(op_, system_.Open(DatabaseMode::kSilicon), 0)), ErrorKind::kPerfDatabase);
  const PerfResult hybrid = Answer(op_, 0, DatabaseMode::kHybrid);
  EXPECT_EQ(hybrid.latency_ms, 0.0);
  EXPECT_EQ(hybrid.source, Source::kEmpirical);
}

TEST_F(MoeRules, NoTableAtAll) {
  const MadeUpSystem empty{Backend::kVllm};
  EXPECT_EQ(KindOf(Ask(op_, empty.Open(DatabaseMode::kHybrid), 64)), ErrorKind::kPerfDatabase);
  EXPECT_EQ(KindOf(Ask(op_, empty.Open(DatabaseMode::kHybrid, {true, false, false, true}), 64)),
            ErrorKind::kEmpiricalNotImplemented);
}

TEST(MoeOnSglang, BalancedPrefillHasFewerTokensWhenMeasured) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("moe_perf", Rows());
  Moe op = Op(MoeQuant::kBfloat16, 2048, 1024, 4, 32);
  const Database db = system.Open(DatabaseMode::kSilicon);
  const double at_80 = Ask(op, db, 80)->latency_ms;
  op.enable_eplb = true;
  EXPECT_NE(Ask(op, db, 101)->latency_ms, at_80);
  op.is_context = true;
  EXPECT_EQ(Ask(op, db, 101)->latency_ms, at_80);
  // An estimate counts every token.
  const Database estimates = system.Open(DatabaseMode::kEmpirical);
  const double all = Ask(op, estimates, 101)->latency_ms;
  op.enable_eplb = false;
  EXPECT_EQ(Ask(op, estimates, 101)->latency_ms, all);
}

TEST(MoeOnSglang, RetiredBackendIsMissingExceptAsRoofline) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("moe_perf", Rows());
  Moe op = Op(MoeQuant::kBfloat16, 2048, 1024, 4, 32);
  op.moe_backend = "deepep_moe";
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, DatabaseMode::kHybrid, DatabaseMode::kEmpirical}) {
    EXPECT_EQ(KindOf(Ask(op, system.Open(mode), 16)), ErrorKind::kPerfDatabase);
  }
  EXPECT_TRUE(Ask(op, system.Open(DatabaseMode::kSol), 16));
}

TEST(MoeForFewTokens, KernelOfItsOwnUpTo128Tokens) {
  MadeUpSystem system{Backend::kTrtllm, "  fp4_tc_flops: 400000000000000\n"};
  const char* few = "moe_torch_flow_min_latency";
  system.Put("moe_perf", {MoeRow("nvfp4", 2048, 1024, 4, 32, 1, 0.01, 0.0, few),
                          MoeRow("nvfp4", 2048, 1024, 4, 32, 256, 0.02, 0.0, few),
                          MoeRow("nvfp4", 2048, 1024, 4, 32, 1, 0.1, 0.0),
                          MoeRow("nvfp4", 2048, 1024, 4, 32, 256, 0.2, 0.0),
                          MoeRow("nvfp4", 2048, 512, 4, 32, 64, 0.3, 0.0)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  Moe op = Op(MoeQuant::kNvfp4, 2048, 1024, 4, 32);
  EXPECT_LT(Ask(op, db, 128)->latency_ms, 0.02);
  EXPECT_GT(Ask(op, db, 129)->latency_ms, 0.1);
  op.is_gated = false;
  EXPECT_GT(Ask(op, db, 128)->latency_ms, 0.1);
  // A shape that only the usual kernel has is answered by that one.
  EXPECT_EQ(Ask(Op(MoeQuant::kNvfp4, 2048, 512, 4, 32), db, 64)->latency_ms, 0.3);
}

TEST(MoeBehaviour, DamagedTableIsNoMissingMeasurementOfOurs) {
  MadeUpSystem system{Backend::kVllm};
  std::vector<Row> rows = Rows();
  for (Row& row : rows) std::erase_if(row, [](const auto& cell) { return cell.first == "topk"; });
  system.Put("moe_perf", rows);
  const Moe op = Op(MoeQuant::kBfloat16, 2048, 1024, 4, 32);
  EXPECT_EQ(
      KindOf(Ask(op, system.Open(DatabaseMode::kHybrid, {}, false, Behaviour::kReference), 16)),
      ErrorKind::kPerfDatabase);
  EXPECT_EQ(KindOf(Ask(op, system.Open(DatabaseMode::kHybrid, {}, false, Behaviour::kNative), 16)),
            ErrorKind::kCorruptData);
}

}  // namespace
}  // namespace infercast
