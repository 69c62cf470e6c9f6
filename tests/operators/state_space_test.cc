// Recurrent kernels: which rows stand for an operator, and what is left when none does.
#include "operators/state_space.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

constexpr const char* kBlackwell = "  sm_version: 100\n";

testing::Cell Text(const std::string& text) { return text; }
testing::Cell Int(std::int64_t value) { return value; }

Result<PerfResult> Ask(const Operator& op, const Database& db, std::uint32_t batch,
                       std::uint32_t s) {
  QueryContext ctx;
  ctx.batch_size = batch;
  ctx.s = s;
  return BoundOperator::Bind(op, db).Query(ctx);
}
void ExpectAnswer(const Result<PerfResult>& result, double latency, Source source,
                  OriginKind origin) {
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_DOUBLE_EQ(result->latency_ms, latency);
  EXPECT_EQ(result->source, source);
  EXPECT_EQ(result->origin.kind, origin);
  EXPECT_EQ(result->tier, Tier::kSilicon);
  EXPECT_FALSE(result->has_sol);
}

// --- Mamba2

Row Mamba2Row(const char* kernel, const char* phase, int d_state, int batch, int seq,
              double latency) {
  return {{"kernel_source", Text(kernel)},
          {"phase", Text(phase)},
          {"d_model", Int(512)},
          {"d_state", Int(d_state)},
          {"d_conv", Int(4)},
          {"nheads", Int(16)},
          {"head_dim", Int(64)},
          {"n_groups", Int(8)},
          {"chunk_size", Int(128)},
          {"batch_size", Int(batch)},
          {"seq_len", Int(seq)},
          {"latency", latency},
          {"power", 300.0}};
}
Mamba2 Mamba2Op(const char* kernel, const char* phase, std::uint32_t d_state) {
  Mamba2 op;
  op.name = "mamba2";
  op.scale_factor = 2;
  op.kernel_source = kernel;
  op.phase = phase;
  op.d_model = 512;
  op.d_state = d_state;
  op.d_conv = 4;
  op.nheads = 16;
  op.head_dim = 64;
  op.n_groups = 8;
  op.chunk_size = 128;
  return op;
}
// Bytes of the convolution and of the scan, per token.
constexpr double Convolution(double d_state) {
  return 2.0 * (1024.0 + 16.0 * d_state) * 5.0 + 2.0 * (1024.0 + 16.0 * d_state);
}

class Mamba2Table : public ::testing::Test {
 protected:
  Mamba2Table() {
    system_.Put("mamba2_perf", {Mamba2Row("causal_conv1d_fn", "context", 128, 1, 1024, 1.0),
                                Mamba2Row("causal_conv1d_fn", "context", 128, 1, 2048, 2.0),
                                Mamba2Row("causal_conv1d_fn", "context", 256, 1, 1024, 5.0),
                                Mamba2Row("causal_conv1d_update", "generation", 128, 8, 1, 0.5)});
  }
  Database Open(DatabaseMode mode = DatabaseMode::kSilicon,
                Behaviour behaviour = Behaviour::kReference) const {
    return system_.Open(mode, {}, false, behaviour);
  }
  MadeUpSystem system_{Backend::kVllm};
};

TEST_F(Mamba2Table, MeasuredWithEnergyInEveryMode) {
  const Mamba2 op = Mamba2Op("causal_conv1d_fn", "context", 128);
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, DatabaseMode::kHybrid, DatabaseMode::kEmpirical, DatabaseMode::kSol,
        DatabaseMode::kSolFull}) {
    const auto result = Ask(op, Open(mode), 1, 1024);
    ExpectAnswer(result, 2.0, Source::kSilicon, OriginKind::kPoint);
    EXPECT_DOUBLE_EQ(result->energy_wms, 600.0);
  }
  ExpectAnswer(Ask(op, Open(), 1, 1536), 3.0, Source::kSilicon, OriginKind::kInterpolated);
  const double traffic = Convolution(128) * 1024.0 / 1e12 * 1000.0;
  ExpectAnswer(Ask(op, Open(DatabaseMode::kSol, Behaviour::kNative), 1, 1024), 2.0 * traffic,
               Source::kSol, OriginKind::kSpeedOfLight);
}

TEST_F(Mamba2Table, AnotherShapeOfTheSameHiddenSize) {
  const Mamba2 op = Mamba2Op("causal_conv1d_fn", "context", 64);
  // The first shape in key order, as it is; native behaviour scales it by the traffic.
  const Database db = Open();
  const BoundOperator bound = BoundOperator::Bind(op, db);  // the donor's name lives in it
  QueryContext ctx;
  ctx.batch_size = 1;
  ctx.s = 1024;
  const auto reference = bound.Query(ctx);
  ExpectAnswer(reference, 2.0, Source::kSilicon, OriginKind::kTransferred);
  ASSERT_NE(reference->origin.donor, nullptr);
  EXPECT_NE(reference->origin.donor->find("/128/"), std::string::npos);
  const auto native = Ask(op, Open(DatabaseMode::kSilicon, Behaviour::kNative), 1, 1024);
  ExpectAnswer(native, 1.0 * (Convolution(64) / Convolution(128)) * 2.0, Source::kSilicon,
               OriginKind::kTransferred);
}

TEST_F(Mamba2Table, WhatWasNotMeasuredIsPricedAtItsTraffic) {
  Mamba2 other = Mamba2Op("causal_conv1d_fn", "context", 128);
  other.d_model = 4096;
  ExpectAnswer(Ask(other, Open(), 3, 7), 2.0 * (Convolution(128) * 21.0 / 1e12 * 1000.0),
               Source::kSol, OriginKind::kSpeedOfLight);
  // An empty sequence still moves one token a request.
  const Mamba2 op = Mamba2Op("causal_conv1d_fn", "context", 128);
  ExpectAnswer(Ask(op, Open(), 3, 0), 2.0 * (Convolution(128) * 3.0 / 1e12 * 1000.0), Source::kSol,
               OriginKind::kSpeedOfLight);
  const Mamba2 scan = Mamba2Op("mamba_chunk_scan_combined", "context", 128);
  const double per_token = 2.0 * (1024.0 + 16.0 * 128.0 + 16.0) + 2.0 * 1024.0;
  ExpectAnswer(Ask(scan, Open(), 1, 100), 2.0 * (per_token * 100.0 / 1e12 * 1000.0), Source::kSol,
               OriginKind::kSpeedOfLight);
}

TEST_F(Mamba2Table, DecodeRowsAreServedInNativeBehaviourOnly) {
  const Mamba2 op = Mamba2Op("causal_conv1d_update", "generation", 128);
  ExpectAnswer(Ask(op, Open(), 8, 4096), 2.0 * (Convolution(128) * 8.0 / 1e12 * 1000.0),
               Source::kSol, OriginKind::kSpeedOfLight);
  ExpectAnswer(Ask(op, Open(DatabaseMode::kSilicon, Behaviour::kNative), 8, 4096), 1.0,
               Source::kSilicon, OriginKind::kPoint);
}

TEST(Mamba2, ADamagedTableIsAnErrorInNativeBehaviour) {
  MadeUpSystem system{Backend::kVllm};
  testing::WriteText(system.Folder() / "mamba2_perf.parquet", "not a table");
  const Mamba2 op = Mamba2Op("causal_conv1d_fn", "context", 128);
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kSilicon), 1, 1)->source, Source::kSol);
  const auto native =
      Ask(op, system.Open(DatabaseMode::kSilicon, {}, false, Behaviour::kNative), 1, 1);
  ASSERT_FALSE(native);
  EXPECT_EQ(native.error().kind, ErrorKind::kCorruptData);
}

// --- Gated delta net

Row GdnRow(const char* kernel, const char* phase, int batch, int seq, double latency) {
  return {{"kernel_source", Text(kernel)},
          {"phase", Text(phase)},
          {"d_model", Int(512)},
          {"d_conv", Int(4)},
          {"num_k_heads", Int(4)},
          {"head_k_dim", Int(32)},
          {"num_v_heads", Int(8)},
          {"head_v_dim", Int(32)},
          {"batch_size", Int(batch)},
          {"seq_len", Int(seq)},
          {"latency", latency}};
}
Gdn GdnOp(const char* kernel, const char* phase, const char* dtype = "float32") {
  Gdn op;
  op.name = "gdn";
  op.scale_factor = 1;
  op.kernel_source = kernel;
  op.phase = phase;
  op.d_model = 512;
  op.d_conv = 4;
  op.num_k_heads = 4;
  op.head_k_dim = 32;
  op.num_v_heads = 8;
  op.head_v_dim = 32;
  op.mamba_ssm_dtype = dtype;
  return op;
}
// channels = 2 * 128 + 256, values = 256, state = 8 * 32 * 32 elements.
constexpr double kGdnTokens = 2.0 * 512.0 + 2.0 * 256.0;
constexpr double kGdnState = 8192.0;

TEST(Gdn, RenamedRowsServeTheLogicalKernel) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("gdn_perf", {GdnRow("fused_recurrent_gated_delta_rule", "generation", 4, 1, 0.25)});
  const Gdn op = GdnOp("fused_sigmoid_gating_delta_rule_update", "generation");
  ExpectAnswer(Ask(op, system.Open(DatabaseMode::kSilicon), 4, 99), 0.25, Source::kSilicon,
               OriginKind::kPoint);
}

TEST(Gdn, ExactShapesOnly) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("gdn_perf", {GdnRow("chunk_gated_delta_rule", "context", 1, 128, 0.25)});
  Gdn op = GdnOp("chunk_gated_delta_rule", "context");
  ExpectAnswer(Ask(op, system.Open(DatabaseMode::kSilicon), 1, 128), 0.25, Source::kSilicon,
               OriginKind::kPoint);
  op.num_v_heads = 16;
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kSilicon), 1, 128)->source, Source::kSol);
}

TEST(Gdn, StatesOfOtherFormatsAreNotThoseMeasured) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("gdn_perf", {GdnRow("chunk_gated_delta_rule", "context", 1, 128, 0.25),
                          GdnRow("causal_conv1d_fn", "context", 1, 128, 0.125)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  // Two chunks of 64 tokens leave snapshots; the state is read and written in its own width.
  const auto bytes = [](double width) {
    return 128.0 * kGdnTokens + 2.0 * width * kGdnState + 2.0 * 4.0 * kGdnState;
  };
  ExpectAnswer(Ask(GdnOp("chunk_gated_delta_rule", "context", "bfloat16"), db, 1, 128),
               bytes(2.0) / 1e12 * 1000.0, Source::kSol, OriginKind::kSpeedOfLight);
  ExpectAnswer(Ask(GdnOp("chunk_gated_delta_rule", "context", "weird"), db, 1, 128),
               bytes(4.0) / 1e12 * 1000.0, Source::kSol, OriginKind::kSpeedOfLight);
  // The convolution has no state.
  EXPECT_EQ(Ask(GdnOp("causal_conv1d_fn", "context", "bfloat16"), db, 1, 128)->source,
            Source::kSilicon);
}

TEST(Gdn, BlackwellDecodeWithHalfStatesHasItsOwnKernel) {
  const auto rows =
      std::vector<Row>{GdnRow("flashinfer_gated_delta_rule_decode", "generation", 4, 1, 0.125),
                       GdnRow("fused_sigmoid_gating_delta_rule_update", "generation", 4, 1, 0.25)};
  const Gdn logical = GdnOp("fused_sigmoid_gating_delta_rule_update", "generation", "bfloat16");
  const Gdn physical = GdnOp("flashinfer_gated_delta_rule_decode", "generation", "bfloat16");
  const Gdn full = GdnOp("fused_sigmoid_gating_delta_rule_update", "generation");
  {
    MadeUpSystem system{Backend::kSglang, kBlackwell};
    system.Put("gdn_perf", rows);
    const Database db = system.Open(DatabaseMode::kSilicon);
    EXPECT_EQ(Ask(logical, db, 4, 1)->latency_ms, 0.125);
    EXPECT_EQ(Ask(physical, db, 4, 1)->latency_ms, 0.125);
    EXPECT_EQ(Ask(full, db, 4, 1)->latency_ms, 0.25);
  }
  for (const Backend backend : {Backend::kSglang, Backend::kVllm}) {
    MadeUpSystem system{backend, backend == Backend::kSglang ? "  sm_version: 90\n" : kBlackwell};
    system.Put("gdn_perf", rows);
    const Database db = system.Open(DatabaseMode::kSilicon);
    EXPECT_EQ(Ask(logical, db, 4, 1)->source, Source::kSol);
    EXPECT_EQ(Ask(physical, db, 4, 1)->source, Source::kSol);
    EXPECT_EQ(Ask(full, db, 4, 1)->latency_ms, 0.25);
  }
}

// --- Kimi delta attention

Row KdaRow(const char* kernel, const char* phase, int v_heads, int batch, int seq, double latency) {
  return {{"kernel_source", Text(kernel)},
          {"phase", Text(phase)},
          {"d_model", Int(512)},
          {"d_conv", Int(4)},
          {"num_k_heads", Int(v_heads)},
          {"head_k_dim", Int(32)},
          {"num_v_heads", Int(v_heads)},
          {"head_v_dim", Int(32)},
          {"batch_size", Int(batch)},
          {"seq_len", Int(seq)},
          {"latency", latency}};
}
Kda KdaOp(const char* kernel, const char* phase, std::uint32_t heads, std::int64_t draft = 0) {
  Kda op;
  op.name = "kda";
  op.scale_factor = 1;
  op.kernel_source = kernel;
  op.phase = phase;
  op.d_model = 512;
  op.d_conv = 4;
  op.num_k_heads = heads;
  op.head_k_dim = 32;
  op.num_v_heads = heads;
  op.head_v_dim = 32;
  op.draft_tokens = draft;
  return op;
}

TEST(Kda, VerifyCountsRequestsAndDraftTokens) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("kda_perf", {KdaRow("fused_recurrent_kda", "verify", 8, 2, 8, 0.5),
                          KdaRow("fused_recurrent_kda", "verify", 8, 4, 8, 1.5)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  const Kda op = KdaOp("fused_recurrent_kda", "verify", 8, 8);
  EXPECT_EQ(Ask(op, db, 16, 1)->latency_ms, 0.5);
  EXPECT_EQ(Ask(op, db, 20, 1)->latency_ms, 0.5);  // 2.5 requests: ties go to the even count
  EXPECT_EQ(Ask(op, db, 28, 1)->latency_ms, 1.5);  // 3.5
  EXPECT_EQ(Ask(op, db, 24, 1)->latency_ms, 1.0);  // 3: between
  // Without draft tokens there is nothing to verify.
  EXPECT_EQ(Ask(KdaOp("fused_recurrent_kda", "verify", 8, 0), db, 16, 1)->source, Source::kSol);
}

TEST(Kda, FusedKernelsStandForConvolutionAndRecurrence) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("kda_perf", {KdaRow("fused_kda_decode_mtp_dspark", "verify", 8, 2, 4, 0.75),
                          KdaRow("kda_fused_decode", "generation", 8, 4, 1, 0.5),
                          KdaRow("causal_conv1d_update", "generation", 16, 4, 1, 0.0625)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  EXPECT_EQ(
      Ask(KdaOp("fused_sigmoid_gating_delta_rule_update", "verify", 8, 4), db, 8, 1)->latency_ms,
      0.75);
  ExpectAnswer(Ask(KdaOp("causal_conv1d_update", "verify", 8, 4), db, 8, 1), 0.0, Source::kSilicon,
               OriginKind::kExact);
  EXPECT_EQ(Ask(KdaOp("fused_recurrent_kda_packed_decode", "generation", 8), db, 4, 77)->latency_ms,
            0.5);
  EXPECT_EQ(Ask(KdaOp("causal_conv1d_update", "generation", 8), db, 4, 77)->latency_ms, 0.0);
  // Measured on its own: not fused.
  EXPECT_EQ(Ask(KdaOp("causal_conv1d_update", "generation", 16), db, 4, 77)->latency_ms, 0.0625);
}

TEST(Kda, NearestShard) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("kda_perf", {KdaRow("chunk_kda", "context", 8, 1, 128, 0.25),
                          KdaRow("chunk_kda", "context", 16, 1, 128, 0.5)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  ExpectAnswer(Ask(KdaOp("chunk_kda", "context", 11), db, 1, 128), 0.25, Source::kSilicon,
               OriginKind::kTransferred);
  EXPECT_EQ(Ask(KdaOp("chunk_kda", "context", 12), db, 1, 128)->latency_ms, 0.25);  // a tie
  EXPECT_EQ(Ask(KdaOp("chunk_kda", "context", 13), db, 1, 128)->latency_ms, 0.5);
  const auto native =
      Ask(KdaOp("chunk_kda", "context", 10),
          system.Open(DatabaseMode::kSilicon, {}, false, Behaviour::kNative), 1, 128);
  EXPECT_DOUBLE_EQ(native->latency_ms, 0.25 * 10.0 / 8.0);  // all its traffic is per head
}

TEST(Kda, AnUnknownPhaseHasNoRows) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("kda_perf", {KdaRow("chunk_kda", "context", 8, 1, 128, 0.25)});
  ExpectAnswer(Ask(KdaOp("unheard_of", "other", 8), system.Open(DatabaseMode::kSilicon), 3, 128),
               4.0 * 512.0 * 3.0 / 1e12 * 1000.0, Source::kSol, OriginKind::kSpeedOfLight);
}

}  // namespace
}  // namespace infercast
