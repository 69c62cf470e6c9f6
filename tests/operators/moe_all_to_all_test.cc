// The token exchange: validation, payload formats, the single-node stand-in and its records, SM
// budgets and round trips.
#include "operators/moe_all_to_all.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

// Latency in microseconds, as collected.
Row A2aRow(std::string_view library, std::string_view phase, std::string_view dtype,
           std::int64_t nodes, std::int64_t tokens, double latency_us, std::int64_t sms = 0,
           std::int64_t hidden = 1024) {
  return {{"comm_backend", std::string(library)},
          {"phase", std::string(phase)},
          {"comm_dtype", std::string(dtype)},
          {"ep_size", 8 * nodes},
          {"node_num", nodes},
          {"hidden_size", hidden},
          {"topk", std::int64_t{4}},
          {"num_experts", std::int64_t{32}},
          {"sms", sms},
          {"num_tokens", tokens},
          {"latency", latency_us}};
}

std::vector<Row> LowLatencyRows() {
  return {A2aRow("deepep_ll", "dispatch", "default", 1, 1, 10),
          A2aRow("deepep_ll", "dispatch", "default", 1, 64, 30),
          A2aRow("deepep_ll", "combine", "default", 1, 1, 12),
          A2aRow("deepep_ll", "combine", "default", 1, 64, 40)};
}

MoeAllToAll Op(std::string library, std::string phase, std::uint32_t nodes) {
  MoeAllToAll op;
  op.name = "a2a";
  op.scale_factor = 2.0;
  op.phase = std::move(phase);
  op.comm_backend = std::move(library);
  op.hidden_size = 1024;
  op.topk = 4;
  op.num_experts = 32;
  op.moe_ep_size = 8 * nodes;
  op.node_num = nodes;
  return op;
}

// An answer and the operator that holds its records.
struct Answer {
  BoundOperator bound;
  Result<PerfResult> result;

  ErrorKind kind() const { return result ? ErrorKind::kInternal : result.error().kind; }
};

Answer Ask(const MoeAllToAll& op, const Database& db, std::uint32_t tokens = 16) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  BoundOperator bound = BoundOperator::Bind(op, db);
  auto result = bound.Query(ctx);
  return {std::move(bound), std::move(result)};
}

class LowLatencyExchange : public ::testing::Test {
 protected:
  LowLatencyExchange() { system_.Put("moe_a2a_perf", LowLatencyRows()); }
  Database Open(DatabaseMode mode) const { return system_.Open(mode); }

  MadeUpSystem system_{Backend::kVllm};
};

TEST_F(LowLatencyExchange, MeasuredTopology) {
  const Answer answer = Ask(Op("deepep_ll", "dispatch", 1), Open(DatabaseMode::kSilicon));
  ASSERT_TRUE(answer.result) << answer.result.error().message;
  EXPECT_DOUBLE_EQ(answer.result->latency_ms, 0.02952380952380952);
  EXPECT_EQ(answer.result->energy_wms, 0.0);
  EXPECT_EQ(answer.result->source, Source::kSilicon);
  EXPECT_TRUE(answer.result->fallbacks.empty());
}

TEST_F(LowLatencyExchange, OneNodeStandsInForSeveral) {
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid}) {
    const Answer answer = Ask(Op("deepep_ll", "dispatch", 4), Open(mode));
    ASSERT_TRUE(answer.result) << answer.result.error().message;
    EXPECT_DOUBLE_EQ(answer.result->latency_ms, 0.02952380952380952);
    EXPECT_EQ(answer.result->source, Source::kEstimated);
    EXPECT_EQ(answer.result->tier, Tier::kSilicon);
    EXPECT_EQ(answer.result->origin.kind, OriginKind::kSubstituted);
    ASSERT_EQ(answer.result->fallbacks.size(), 1u);
    EXPECT_EQ(answer.result->fallbacks[0], (CommFallback{"deepep_ll", 32, 4, 8, 1}));
  }
}

TEST_F(LowLatencyExchange, MissingStandInIsMissing) {
  MoeAllToAll op = Op("deepep_ll", "dispatch", 4);
  op.hidden_size = 2048;
  EXPECT_EQ(Ask(op, Open(DatabaseMode::kSilicon)).kind(), ErrorKind::kPerfDatabase);
  EXPECT_EQ(Ask(op, Open(DatabaseMode::kHybrid)).kind(), ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(LowLatencyExchange, KnownByMeasurementOnly) {
  for (const DatabaseMode mode :
       {DatabaseMode::kSol, DatabaseMode::kSolFull, DatabaseMode::kEmpirical}) {
    EXPECT_EQ(Ask(Op("deepep_ll", "dispatch", 1), Open(mode)).kind(),
              ErrorKind::kEmpiricalNotImplemented);
  }
}

TEST_F(LowLatencyExchange, NamesAreCheckedInEveryMode) {
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, DatabaseMode::kEmpirical, DatabaseMode::kSol}) {
    for (const MoeAllToAll& op : {Op("deepep_ll", "bogus", 1), Op("unknown", "dispatch", 1),
                                  Op("deepep_ll", "prepare", 1)}) {
      EXPECT_EQ(Ask(op, Open(mode)).kind(), ErrorKind::kInvalidEngineConfig)
          << op.comm_backend << " " << op.phase;
    }
  }
}

TEST_F(LowLatencyExchange, TokensAreSplitOverAttentionRanks) {
  MoeAllToAll op = Op("deepep_ll", "dispatch", 1);
  op.attention_tp_size = 2;
  const Answer split = Ask(op, Open(DatabaseMode::kSilicon), 33);
  ASSERT_TRUE(split.result);
  EXPECT_DOUBLE_EQ(split.result->latency_ms, 0.02952380952380952);
  // No token left: nothing to anchor a curve without a point at 0.
  op.attention_tp_size = 64;
  EXPECT_EQ(Ask(op, Open(DatabaseMode::kSilicon), 33).kind(), ErrorKind::kPerfDatabase);
  op.attention_tp_size = 0;
  EXPECT_TRUE(Ask(op, Open(DatabaseMode::kSilicon), 16).result);
}

TEST_F(LowLatencyExchange, TheOnlyUnnamedPayloadAnswersForAll) {
  MoeAllToAll op = Op("deepep_ll", "dispatch", 1);
  op.comm_dtype = "nvfp4";
  EXPECT_TRUE(Ask(op, Open(DatabaseMode::kSilicon)).result);
}

TEST_F(LowLatencyExchange, RecordsOfCompositesKeepTheirOrderAndAreUnique) {
  const auto four = Operator(Op("deepep_ll", "dispatch", 4));
  const auto back = Operator(Op("deepep_ll", "combine", 4));
  const auto two = Operator(Op("deepep_ll", "dispatch", 2));
  const Database db = Open(DatabaseMode::kSilicon);
  std::vector<BoundOperator> bound;
  for (const Operator& op : {four, back, two}) bound.push_back(BoundOperator::Bind(op, db));
  QueryContext ctx;
  ctx.num_tokens = 32;
  PerfResult total = PerfResult::Zero();
  for (const BoundOperator& op : bound) total.Add(*op.Query(ctx));
  EXPECT_EQ(total.source, Source::kEstimated);
  ASSERT_EQ(total.fallbacks.size(), 2u);
  EXPECT_EQ(total.fallbacks[0], (CommFallback{"deepep_ll", 32, 4, 8, 1}));
  EXPECT_EQ(total.fallbacks[1], (CommFallback{"deepep_ll", 16, 2, 8, 1}));
}

TEST(Exchange, MeasuredTopologyIsNotReplacedBeyondItsTokens) {
  MadeUpSystem system{Backend::kVllm};
  std::vector<Row> rows = LowLatencyRows();
  rows.push_back(A2aRow("deepep_ll", "dispatch", "default", 2, 8, 100));
  system.Put("moe_a2a_perf", rows);
  const Answer answer =
      Ask(Op("deepep_ll", "dispatch", 2), system.Open(DatabaseMode::kSilicon), 64);
  ASSERT_TRUE(answer.result);
  EXPECT_DOUBLE_EQ(answer.result->latency_ms, 2 * 0.8);
  EXPECT_EQ(answer.result->source, Source::kSilicon);
  EXPECT_EQ(answer.result->origin.kind, OriginKind::kExtrapolated);
}

TEST(Exchange, LibrariesWithoutStandIn) {
  MadeUpSystem system{Backend::kVllm};
  system.Put("moe_a2a_perf", {A2aRow("deepep_v2_context", "dispatch", "default", 1, 1, 10),
                              A2aRow("nvlink_one_sided", "dispatch", "bfloat16", 1, 1, 10)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  EXPECT_EQ(Ask(Op("deepep_v2_context", "dispatch", 2), db).kind(), ErrorKind::kPerfDatabase);
  MoeAllToAll op = Op("nvlink_one_sided", "dispatch", 2);
  op.comm_dtype = "bfloat16";
  EXPECT_EQ(Ask(op, db).kind(), ErrorKind::kPerfDatabase);
}

TEST(Exchange, StandInSpansOneNode) {
  // Four GPUs a node here; SGLang's measurements always span eight.
  for (const Backend backend : {Backend::kVllm, Backend::kSglang}) {
    MadeUpSystem system{backend};
    system.Put("moe_a2a_perf", LowLatencyRows());
    const Answer answer = Ask(Op("deepep_ll", "combine", 2), system.Open(DatabaseMode::kSilicon));
    ASSERT_TRUE(answer.result);
    EXPECT_EQ(answer.result->fallbacks[0].measurement_ep_size, 8u);
  }
}

TEST(Exchange, BlockedFp8TravelsAsFp8) {
  MadeUpSystem system{Backend::kTrtllm};
  system.Put("moe_a2a_perf", {A2aRow("nvlink_one_sided", "dispatch", "fp8", 1, 16, 10),
                              A2aRow("nvlink_one_sided", "dispatch", "nvfp4", 1, 16, 20),
                              A2aRow("nvlink_one_sided", "combine", "bfloat16", 1, 16, 30)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  MoeAllToAll op = Op("nvlink_one_sided", "dispatch", 1);
  op.comm_dtype = "fp8_block";
  EXPECT_EQ(Ask(op, db).result->latency_ms, 2 * 0.01);
  op.comm_dtype = "bfloat16";
  EXPECT_EQ(Ask(op, db).kind(), ErrorKind::kPerfDatabase);
  // One format alone answers for others only when it has no name.
  op.phase = "combine";
  op.comm_dtype = "fp8";
  EXPECT_EQ(Ask(op, db).kind(), ErrorKind::kPerfDatabase);
}

TEST(Exchange, SmBudgetsAreBlended) {
  MadeUpSystem system{Backend::kVllm};
  system.Put("moe_a2a_perf", {A2aRow("deepep_v2_context", "dispatch", "default", 1, 16, 30, 16),
                              A2aRow("deepep_v2_context", "dispatch", "default", 1, 64, 50, 16),
                              A2aRow("deepep_v2_context", "dispatch", "default", 1, 16, 10, 32),
                              A2aRow("deepep_v2_context", "dispatch", "default", 1, 64, 20, 32)});
  MoeAllToAll op = Op("deepep_v2_context", "dispatch", 1);
  op.scale_factor = 1.0;
  op.sms = 24;
  const Answer answer = Ask(op, system.Open(DatabaseMode::kSilicon), 16);
  ASSERT_TRUE(answer.result);
  EXPECT_DOUBLE_EQ(answer.result->latency_ms, 0.02);
  EXPECT_EQ(answer.result->origin.kind, OriginKind::kInterpolated);
  op.sms = 20;
  EXPECT_DOUBLE_EQ(Ask(op, system.Open(DatabaseMode::kSilicon), 40).result->latency_ms,
                   0.04 + (0.015 - 0.04) * 0.25);
}

TEST(Exchange, RoundTripIsSharedOutInTheHold) {
  // With one point a direction the hold is exact: dispatch and combine keep their own utilisation.
  MadeUpSystem system{Backend::kVllm};
  system.Put("moe_a2a_perf", {A2aRow("deepep_ht", "dispatch", "default", 1, 16, 10, 20),
                              A2aRow("deepep_ht", "combine", "default", 1, 16, 30, 20)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  MoeAllToAll op = Op("deepep_ht", "dispatch", 1);
  op.scale_factor = 1.0;
  op.sms = 12;
  EXPECT_NEAR(Ask(op, db, 32).result->latency_ms, 0.02, 1e-12);
  op.phase = "combine";
  EXPECT_NEAR(Ask(op, db, 32).result->latency_ms, 0.06, 1e-12);
}

TEST(Exchange, UnreadableTableIsMissingInHybridToo) {
  const MadeUpSystem empty{Backend::kVllm};
  EXPECT_EQ(Ask(Op("deepep_ll", "dispatch", 1), empty.Open(DatabaseMode::kHybrid)).kind(),
            ErrorKind::kPerfDatabase);
}

}  // namespace
}  // namespace infercast
