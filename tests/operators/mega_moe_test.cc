// The fused routed block of DeepSeek-V4: one exact slice, measured answers only.
#include "operators/mega_moe.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

constexpr const char* kBlackwell = "  fp4_tc_flops: 400000000000000\n  sm_version: 100\n";

Row MegaRow(std::int64_t tokens, double latency) {
  return {{"phase", std::string("context")},
          {"kernel_source", std::string("deepgemm_megamoe")},
          {"kernel_dtype", std::string("fp8_fp4")},
          {"moe_dtype", std::string("nvfp4")},
          {"pre_dispatch", std::string("sglang_jit")},
          {"source_policy", std::string("random")},
          {"distribution", std::string("balanced")},
          {"topk", std::int64_t{6}},
          {"num_experts", std::int64_t{384}},
          {"hidden_size", std::int64_t{7168}},
          {"inter_size", std::int64_t{3072}},
          {"moe_ep_size", std::int64_t{8}},
          {"num_tokens", tokens},
          {"latency", latency},
          {"power", 200.0},
          {"routed_scaling_factor", 2.5},
          {"used_cuda_graph", std::int64_t{1}},
          {"includes_gate_topk", std::int64_t{0}},
          {"includes_routed_scale", std::int64_t{1}}};
}

Dsv4MegaMoe Op() {
  Dsv4MegaMoe op;
  op.name = "mega";
  op.scale_factor = 2.0;
  op.hidden_size = 7168;
  op.inter_size = 3072;
  op.topk = 6;
  op.num_experts = 384;
  op.moe_tp_size = 1;
  op.moe_ep_size = 8;
  op.quant_mode = MoeQuant::kNvfp4;
  op.workload_distribution = "uniform";
  op.is_context = true;
  op.source_policy = "random";
  op.pre_dispatch = "sglang_jit";
  op.kernel_source = "deepgemm_megamoe";
  op.kernel_dtype = "fp8_fp4";
  return op;
}

Result<PerfResult> Ask(const Dsv4MegaMoe& op, const Database& db, std::uint32_t tokens) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return BoundOperator::Bind(op, db).Query(ctx);
}

ErrorKind KindOf(const Result<PerfResult>& result) {
  return result ? ErrorKind::kInternal : result.error().kind;
}

TEST(MegaMoe, MeasuredWithEnergy) {
  MadeUpSystem system{Backend::kSglang, kBlackwell};
  system.Put("dsv4_megamoe_module_perf", {MegaRow(16, 0.5), MegaRow(64, 1.5)});
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid}) {
    const auto result = Ask(Op(), system.Open(mode), 40);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_DOUBLE_EQ(result->latency_ms, 2.0);
    EXPECT_DOUBLE_EQ(result->energy_wms, 400.0);
    EXPECT_EQ(result->source, Source::kSilicon);
  }
  // A lone rank-local count holds in both directions.
  EXPECT_DOUBLE_EQ(Ask(Op(), system.Open(DatabaseMode::kSilicon), 8)->latency_ms, 0.5);
}

TEST(MegaMoe, AnythingElseIsMissing) {
  MadeUpSystem system{Backend::kSglang, kBlackwell};
  system.Put("dsv4_megamoe_module_perf", {MegaRow(16, 0.5)});
  Dsv4MegaMoe op = Op();
  op.moe_ep_size = 7;
  EXPECT_EQ(KindOf(Ask(op, system.Open(DatabaseMode::kSilicon), 16)), ErrorKind::kPerfDatabase);
  EXPECT_EQ(KindOf(Ask(op, system.Open(DatabaseMode::kHybrid), 16)), ErrorKind::kPerfDatabase);
  for (const DatabaseMode mode :
       {DatabaseMode::kEmpirical, DatabaseMode::kSol, DatabaseMode::kSolFull}) {
    EXPECT_EQ(KindOf(Ask(Op(), system.Open(mode), 16)), ErrorKind::kPerfDatabase);
  }
}

TEST(MegaMoe, NeedsBlackwellInEveryMode) {
  const MadeUpSystem hopper{Backend::kSglang, "  sm_version: 90\n"};
  for (const DatabaseMode mode :
       {DatabaseMode::kSilicon, DatabaseMode::kHybrid, DatabaseMode::kSol}) {
    EXPECT_EQ(KindOf(Ask(Op(), hopper.Open(mode), 16)), ErrorKind::kModelConfig);
  }
}

TEST(MegaMoe, RowsOfAnotherSetupSpoilTheTable) {
  for (const char* flag : {"used_cuda_graph", "includes_gate_topk", "includes_routed_scale"}) {
    MadeUpSystem system{Backend::kSglang, kBlackwell};
    Row row = MegaRow(16, 0.5);
    for (auto& [name, value] : row) {
      if (name == flag) value = std::int64_t{1} - std::get<std::int64_t>(value);
    }
    system.Put("dsv4_megamoe_module_perf", {row});
    EXPECT_EQ(KindOf(Ask(Op(), system.Open(DatabaseMode::kSilicon), 16)), ErrorKind::kPerfDatabase)
        << flag;
  }
}

}  // namespace
}  // namespace infercast
