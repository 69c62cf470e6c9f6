// Hyper-connection modules: halves, modes and the roofline.
#include "operators/hyper_connection.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

Row MhcRow(const char* half, std::int64_t tokens, double latency) {
  return {{"op_name", std::string(half)}, {"num_tokens", tokens},
          {"hc_mult", std::int64_t{4}},   {"hidden_size", std::int64_t{256}},
          {"latency", latency},           {"power", half == std::string("pre") ? 100.0 : 200.0}};
}

Mhc Op(const char* half) {
  Mhc op;
  op.name = "mhc";
  op.scale_factor = 2;
  op.op = half;
  op.hc_mult = 4;
  op.hidden_size = 256;
  op.architecture = "DeepseekV4ForCausalLM";
  return op;
}

Result<PerfResult> Ask(const Mhc& op, const Database& db, std::uint32_t tokens) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return BoundOperator::Bind(op, db).Query(ctx);
}

class HyperConnection : public ::testing::Test {
 protected:
  HyperConnection() {
    system_.Put("mhc_module_perf", {MhcRow("pre", 16, 1.0), MhcRow("pre", 32, 2.0),
                                    MhcRow("post", 16, 0.5), MhcRow("post", 32, 1.0)});
  }
  MadeUpSystem system_{Backend::kSglang};
};

TEST_F(HyperConnection, BothIsTheSumOfTheHalves) {
  const Database db = system_.Open(DatabaseMode::kSilicon);
  EXPECT_DOUBLE_EQ(Ask(Op("pre"), db, 24)->latency_ms, 3.0);
  EXPECT_DOUBLE_EQ(Ask(Op("post"), db, 24)->latency_ms, 1.5);
  const auto both = Ask(Op("both"), db, 24);
  EXPECT_DOUBLE_EQ(both->latency_ms, 4.5);
  EXPECT_DOUBLE_EQ(both->energy_wms, 2.0 * (1.5 * 100.0 + 0.75 * 200.0));
  EXPECT_EQ(both->source, Source::kSilicon);
  EXPECT_EQ(both->tier, Tier::kSilicon);
  EXPECT_EQ(both->origin.kind, OriginKind::kInterpolated);
}

TEST_F(HyperConnection, TokensAreSplitOverContextParallelRanks) {
  Mhc op = Op("pre");
  op.seq_split = 3;
  EXPECT_DOUBLE_EQ(Ask(op, system_.Open(DatabaseMode::kSilicon), 94)->latency_ms, 4.0);  // 32
  op.seq_split = 0;
  EXPECT_DOUBLE_EQ(Ask(op, system_.Open(DatabaseMode::kSilicon), 32)->latency_ms, 4.0);
}

TEST_F(HyperConnection, EstimatesCarryNoEnergyAndATier) {
  const auto result = Ask(Op("both"), system_.Open(DatabaseMode::kEmpirical), 32);
  ASSERT_TRUE(result);
  EXPECT_DOUBLE_EQ(result->latency_ms, 6.0);  // at a measured point the estimate is exact
  EXPECT_EQ(result->energy_wms, 0.0);
  EXPECT_EQ(result->source, Source::kEmpirical);
  EXPECT_EQ(result->tier, Tier::kEmpirical);
  EXPECT_EQ(result->origin.kind, OriginKind::kEstimated);
}

TEST_F(HyperConnection, UnknownShapesMiss) {
  Mhc op = Op("pre");
  op.hidden_size = 512;
  EXPECT_EQ(Ask(op, system_.Open(DatabaseMode::kSilicon), 16).error().kind,
            ErrorKind::kPerfDatabase);
  EXPECT_EQ(Ask(op, system_.Open(DatabaseMode::kHybrid), 16).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
  EXPECT_EQ(Ask(Op("neither"), system_.Open(DatabaseMode::kSilicon), 16).error().kind,
            ErrorKind::kPerfDatabase);
}

TEST_F(HyperConnection, AMissingRateComesFirst) {
  Mhc op = Op("pre");
  op.quant_mode = GemmQuant::kNvfp4;
  op.hidden_size = 512;
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, DatabaseMode::kHybrid, DatabaseMode::kSol}) {
    EXPECT_EQ(Ask(op, system_.Open(mode), 16).error().kind, ErrorKind::kMissingSystemFlops);
  }
}

TEST_F(HyperConnection, RooflineOfOneAndOfBoth) {
  const Database db = system_.Open(DatabaseMode::kSol);
  // 4 streams of 256: 24 coefficients a token from 1024 values. Memory decides.
  const double parameters = 2.0 * (24.0 * 1024.0 + 24.0 + 3.0) * 2.0;
  const double stream = 2.0 * 10.0 * 1024.0 * 2.0;
  const double coefficients = 4.0 * 2.0 * 10.0 * 24.0;
  const auto time = [](double bytes) { return bytes / 1e12 * 1000.0 * 2.0; };
  EXPECT_DOUBLE_EQ(Ask(Op("pre"), db, 10)->latency_ms,
                   time(parameters + (2.0 * stream + coefficients)));
  EXPECT_DOUBLE_EQ(Ask(Op("post"), db, 10)->latency_ms, time(parameters + 2.0 * stream));
  EXPECT_DOUBLE_EQ(Ask(Op("both"), db, 10)->latency_ms,
                   time(parameters + (3.0 * stream + coefficients)));
  EXPECT_DOUBLE_EQ(Ask(Op("neither"), db, 10)->latency_ms, time(parameters + 2.0 * stream));
  EXPECT_EQ(Ask(Op("pre"), db, 10)->source, Source::kSol);
}

TEST_F(HyperConnection, EstimatesDoNotDependOnWhatWasAskedBefore) {
  // So many iterations that arithmetic decides: samples of one must not serve the other.
  Mhc heavy = Op("pre");
  heavy.sinkhorn_iters = 20'000'000;
  const Database shared = system_.Open(DatabaseMode::kEmpirical);
  const double first = Ask(Op("pre"), shared, 20)->latency_ms;
  const double second = Ask(heavy, shared, 20)->latency_ms;
  EXPECT_DOUBLE_EQ(second, Ask(heavy, system_.Open(DatabaseMode::kEmpirical), 20)->latency_ms);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace infercast
