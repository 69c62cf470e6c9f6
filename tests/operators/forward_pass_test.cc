// Whole forward passes: clamps, brackets, transfer, the domain gate and the pass baseline, on a
// small table whose answers are known.
#include "operators/forward_pass.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"
#include "tables/digest.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

const std::vector<std::string> kIdentity = {"bfloat16", "bfloat16", "bfloat16", "half",  "bfloat16",
                                            "1",        "1",        "1",        "1",     "1",
                                            "1",        "auto",     "auto",     "False", "False"};

Row FpmRow(const char* phase, std::int64_t batch, std::int64_t tokens, std::int64_t kv,
           double latency) {
  const auto text = [](const char* value) { return testing::Cell(std::string(value)); };
  return {{"cell_id", text("cell")},
          {"model_path", text("some/model")},
          {"system", text("made_up")},
          {"backend", text("vllm")},
          {"backend_version", text("1.0.0")},
          {"weight_quantization", text("none")},
          {"gemm_quant_mode", text("bfloat16")},
          {"moe_quant_mode", text("bfloat16")},
          {"fmha_quant_mode", text("bfloat16")},
          {"comm_quant_mode", text("half")},
          {"kv_cache_dtype", text("bfloat16")},
          {"tp", std::int64_t{1}},
          {"pp", std::int64_t{1}},
          {"dp", std::int64_t{1}},
          {"moe_tp", std::int64_t{1}},
          {"moe_ep", std::int64_t{1}},
          {"cp", std::int64_t{1}},
          {"moe_backend", text("auto")},
          {"attention_backend", text("auto")},
          {"enable_wideep", false},
          {"enable_eplb", false},
          {"workload_kind", text(phase)},
          {"batch_size", batch},
          {"total_prefill_tokens", tokens},
          {"total_kv_read_tokens", kv},
          {"partition_policy", text("balanced_v1")},
          {"latency_ms", latency}};
}

class WholeForward : public ::testing::Test {
 protected:
  WholeForward() {
    std::vector<Row> rows;
    const auto prefill = [&](int batch, int tokens, int kv, double latency) {
      rows.push_back(FpmRow("prefill", batch, tokens, kv, latency));
    };
    const auto decode = [&](int batch, int kv, double latency) {
      rows.push_back(FpmRow("decode", batch, 0, kv, latency));
    };
    prefill(1, 512, 0, 10), prefill(1, 2048, 0, 20), prefill(1, 2048, 4096, 24);
    prefill(1, 4096, 0, 41), prefill(2, 512, 0, 10.2), prefill(2, 2048, 0, 20.2);
    prefill(2, 4096, 0, 41.5);
    decode(1, 2, 2), decode(1, 64, 3), decode(2, 4, 2.5), decode(2, 64, 3.5), decode(8, 16, 4);
    decode(8, 64, 5), decode(9, 18, 5), decode(9, 64, 6), decode(16, 32, 9), decode(16, 64, 10);
    decode(17, 34, 10), decode(17, 96, 11);
    system_.Put("fpm_forward_perf", rows);
    const auto digest = Sha256OfFile(system_.Folder() / "fpm_forward_perf.parquet");
    testing::WriteText(system_.Folder() / "fpm_forward_perf.metadata.json",
                       R"({"schema_name": "aic_fpm_forward_perf", "schema_version": 6,
            "coordinate_system": "iteration_totals_balanced_v1",
            "measurement_policy": "dynamo_native_single_sample_v1", "system": "made_up",
            "backend": "vllm", "backend_version": "1.0.0", "row_count": 19,
            "parquet_sha256": ")" +
                           ToHex(*digest) + "\"}");
  }

  static FpmForward Op(FpmPhase phase) {
    FpmForward op;
    op.name = phase == FpmPhase::kPrefill ? "fpm_forward_prefill" : "fpm_forward_decode";
    op.phase = phase;
    op.model_path = "some/model";
    op.match_identity = kIdentity;
    Elementwise elementwise;
    elementwise.name = "norm";
    elementwise.scale_factor = 1;
    elementwise.bytes_per_token = 8192;
    op.sol_ops = {elementwise};
    return op;
  }
  BoundFpmForward Bind(const FpmForward& op, Behaviour behaviour = Behaviour::kReference) const {
    return {op, system_.Open(DatabaseMode::kSilicon, {}, false, behaviour)};
  }
  Result<PerfResult> Ask(FpmPhase phase, std::uint32_t batch, std::uint32_t s,
                         std::uint32_t prefix = 0) const {
    QueryContext ctx;
    ctx.batch_size = batch;
    ctx.s = s;
    ctx.prefix = prefix;
    return Bind(Op(phase)).Query(ctx);
  }
  void ExpectPrefill(std::uint32_t batch, std::uint32_t s, std::uint32_t prefix, double latency,
                     OriginKind origin) const {
    const auto result = Ask(FpmPhase::kPrefill, batch, s, prefix);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_NEAR(result->latency_ms, latency, 1e-12 * latency);
    EXPECT_EQ(result->origin.kind, origin);
    EXPECT_EQ(result->source, Source::kSilicon);
    EXPECT_EQ(result->energy_wms, 0.0);
  }
  void ExpectDecode(std::uint32_t batch, std::uint32_t s, double latency) const {
    const auto result = Ask(FpmPhase::kDecode, batch, s);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_NEAR(result->latency_ms, latency, 1e-12 * latency);
  }
  static void ExpectMiss(const Result<PerfResult>& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
  }

  MadeUpSystem system_{Backend::kVllm};
};

TEST_F(WholeForward, MeasuredAndBetweenOnOneCurve) {
  ExpectPrefill(1, 2048, 0, 20, OriginKind::kPoint);
  ExpectPrefill(1, 1000, 0, 13.177083333333332, OriginKind::kInterpolated);
}

TEST_F(WholeForward, MoreRequestsThanCollectedOnAFlatBatchAxis) {
  ExpectPrefill(4, 512, 0, 20.2, OriginKind::kPoint);
  // A long past: the roofline says what dividing it costs (nothing here).
  ExpectPrefill(4, 512, 1024, 24, OriginKind::kExtrapolated);
}

TEST_F(WholeForward, BorrowsTheUtilisationOfNeighbouringSites) {
  ExpectPrefill(1, 2048, 2048, 24, OriginKind::kExtrapolated);
  ExpectPrefill(3, 1000, 1000, 29.930514973235368, OriginKind::kExtrapolated);
  ExpectPrefill(2, 512, 2048, 13.432607500847228, OriginKind::kExtrapolated);
}

TEST_F(WholeForward, DecodeRowsAndTheBracketsBetweenThem) {
  ExpectDecode(9, 4, 5.3913043478260869);
  ExpectDecode(12, 4, 7.3012422360248443);
  ExpectDecode(4, 4, 3.1333333333333333);
  // Its own row ends at 64 KV tokens: the next row's utilisation.
  ExpectDecode(16, 5, 10.110056925996204);
}

TEST_F(WholeForward, NeverExtrapolates) {
  ExpectMiss(Ask(FpmPhase::kPrefill, 5, 64));
  ExpectMiss(Ask(FpmPhase::kDecode, 15, 1));
  ExpectMiss(Ask(FpmPhase::kDecode, 15, 6));
  ExpectMiss(Ask(FpmPhase::kDecode, 18, 4));
}

TEST_F(WholeForward, RefusesWhatTheTableCannotHold) {
  ExpectMiss(Ask(FpmPhase::kPrefill, 0, 512));
  ExpectMiss(Ask(FpmPhase::kPrefill, 1, 0));
  QueryContext beams;
  beams.s = 2048;
  beams.beam_width = 2;
  ExpectMiss(Bind(Op(FpmPhase::kPrefill)).Query(beams));

  FpmForward other = Op(FpmPhase::kPrefill);
  other.model_path = "another/model";
  ExpectMiss(Bind(other).QueryPrefillTotals(1, 2048, 0));
  FpmForward short_identity = Op(FpmPhase::kPrefill);
  short_identity.match_identity.pop_back();
  ExpectMiss(Bind(short_identity).QueryPrefillTotals(1, 2048, 0));
}

TEST_F(WholeForward, WithoutARooflineOnlyMeasuredCurvesAnswer) {
  FpmForward op = Op(FpmPhase::kPrefill);
  op.sol_ops = {Mamba2{}};
  EXPECT_DOUBLE_EQ(Bind(op).QueryPrefillTotals(1, 2048, 0)->latency_ms, 20);
  const auto transfer = Bind(op).QueryPrefillTotals(1, 2048, 2048);
  ExpectMiss(transfer);
  EXPECT_NE(transfer.error().message.find("no roofline"), std::string::npos);
}

TEST_F(WholeForward, TotalsAreThoseOfTheIteration) {
  EXPECT_DOUBLE_EQ(Bind(Op(FpmPhase::kDecode)).QueryDecodeTotals(9, 36)->latency_ms,
                   Ask(FpmPhase::kDecode, 9, 4)->latency_ms);
  EXPECT_EQ(Bind(Op(FpmPhase::kDecode)).QueryPrefillTotals(1, 2048, 0).error().kind,
            ErrorKind::kInternal);
  EXPECT_EQ(Bind(Op(FpmPhase::kDecode)).DecodeKvCeiling(), 96.0);
  EXPECT_EQ(Bind(Op(FpmPhase::kPrefill)).DecodeKvCeiling(), std::nullopt);
}

TEST_F(WholeForward, BaselineOfAPass) {
  const auto reference = Bind(Op(FpmPhase::kDecode));
  const auto native = Bind(Op(FpmPhase::kDecode), Behaviour::kNative);
  // At the lowest KV total of the table, but at least one token a request.
  EXPECT_DOUBLE_EQ(reference.QueryPassBaseline(1, 64)->latency_ms, 2.0);
  // 9 KV tokens lie below the row of nine requests: its neighbours' utilisation stands in.
  EXPECT_TRUE(reference.QueryPassBaseline(9, 64));
  EXPECT_DOUBLE_EQ(native.QueryPassBaseline(9, 64)->latency_ms, 5.0);
  // Twelve requests: neither bracket row reaches down to 12 KV tokens.
  ExpectMiss(reference.QueryPassBaseline(12, 48));
  EXPECT_DOUBLE_EQ(native.QueryPassBaseline(12, 48)->latency_ms, 5.0 + 4.0 * 3.0 / 7.0);
  // A row that does not cover the step's KV total does not count.
  EXPECT_DOUBLE_EQ(native.QueryPassBaseline(12, 20)->latency_ms, 5.0);
  ExpectMiss(native.QueryPassBaseline(12, 90));
  ExpectMiss(reference.QueryPassBaseline(0, 1));
}

TEST_F(WholeForward, WithoutItsMetadataTheTableIsNotUsed) {
  std::filesystem::remove(system_.Folder() / "fpm_forward_perf.metadata.json");
  ExpectMiss(Ask(FpmPhase::kPrefill, 1, 2048));
}

}  // namespace
}  // namespace infercast
