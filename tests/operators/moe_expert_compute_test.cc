// Expert computation under large expert parallelism: kernels, distributions, slots, substitution.
#include "operators/moe_expert_compute.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

Row ComputeRow(std::string_view kernel, std::string_view distribution, std::string_view phase,
               std::int64_t tokens, double latency, std::int64_t slots = 32) {
  return {{"kernel_source", std::string(kernel)},
          {"moe_dtype", std::string("bfloat16")},
          {"distribution", std::string(distribution)},
          {"inference_phase", std::string(phase)},
          {"num_tokens", tokens},
          {"hidden_size", std::int64_t{1024}},
          {"inter_size", std::int64_t{512}},
          {"topk", std::int64_t{4}},
          {"num_experts", std::int64_t{32}},
          {"num_slots", slots},
          {"moe_tp_size", std::int64_t{1}},
          {"moe_ep_size", std::int64_t{8}},
          {"latency", latency}};
}

std::vector<Row> Rows(std::string_view kernel) {
  return {ComputeRow(kernel, "power_law_0.8", "generation", 16, 0.1),
          ComputeRow(kernel, "power_law_0.8", "generation", 256, 0.3),
          ComputeRow(kernel, "power_law_1.2", "context", 16, 0.5),
          ComputeRow(kernel, "power_law_1.2", "context", 256, 0.9),
          ComputeRow(kernel, "uniform", "context", 16, 0.2),
          ComputeRow(kernel, "uniform", "context", 256, 0.4),
          ComputeRow(kernel, "uniform", "context", 16, 0.7, 40)};
}

Row MoeRow(std::int64_t tokens, double latency) {
  return {{"moe_dtype", std::string("bfloat16")},
          {"distribution", std::string("uniform")},
          {"num_tokens", tokens},
          {"hidden_size", std::int64_t{2048}},
          {"inter_size", std::int64_t{512}},
          {"topk", std::int64_t{4}},
          {"num_experts", std::int64_t{32}},
          {"moe_tp_size", std::int64_t{1}},
          {"moe_ep_size", std::int64_t{8}},
          {"latency", latency},
          {"power", 100.0}};
}

MoeExpertCompute Op(std::string distribution, std::string phase) {
  MoeExpertCompute op;
  op.name = "experts";
  op.scale_factor = 1.0;
  op.hidden_size = 1024;
  op.inter_size = 512;
  op.topk = 4;
  op.num_experts = 32;
  op.moe_ep_size = 8;
  op.quant_mode = MoeQuant::kBfloat16;
  op.workload_distribution = std::move(distribution);
  op.attention_dp_size = 1;
  op.inference_phase = std::move(phase);
  return op;
}

Result<PerfResult> Ask(const MoeExpertCompute& op, const Database& db, std::uint32_t tokens) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return BoundOperator::Bind(op, db).Query(ctx);
}

ErrorKind KindOf(const Result<PerfResult>& result) {
  return result ? ErrorKind::kInternal : result.error().kind;
}

class DeepEpExperts : public ::testing::Test {
 protected:
  DeepEpExperts() { system_.Put("moe_expert_compute_perf", Rows("deepep_moe")); }
  double At(const MoeExpertCompute& op, std::uint32_t tokens) const {
    const auto result = Ask(op, system_.Open(DatabaseMode::kSilicon), tokens);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->latency_ms : -1;
  }
  MadeUpSystem system_{Backend::kSglang};
};

TEST_F(DeepEpExperts, DistributionThatHasThePhase) {
  EXPECT_EQ(At(Op("power_law_1.2", "context"), 16), 0.5);
  EXPECT_EQ(At(Op("power_law_0.8", "context"), 16), 0.2) << "the even one stands in";
  EXPECT_EQ(At(Op("power_law_1.2", "generation"), 16), 0.1) << "the first collected stands in";
}

TEST_F(DeepEpExperts, SlotsDefaultToExperts) {
  MoeExpertCompute op = Op("uniform", "context");
  EXPECT_EQ(At(op, 16), 0.2);
  op.num_slots = 40;
  EXPECT_EQ(At(op, 16), 0.7);
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon), 8)), ErrorKind::kPerfDatabase)
      << "a lone point answers nothing below it";
  op.num_slots = 48;
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon), 16)), ErrorKind::kPerfDatabase);
}

TEST_F(DeepEpExperts, TokensGatherAndBalance) {
  MoeExpertCompute op = Op("uniform", "context");
  const double at_161 = At(op, 161);
  op.attention_dp_size = 2;
  op.enable_eplb = true;
  EXPECT_EQ(At(op, 101), at_161) << "202 tokens, four fifths of them";
  op.workload_distribution = "power_law_0.8";
  op.inference_phase = "generation";
  const double balanced = At(op, 101);
  op.enable_eplb = false;
  EXPECT_EQ(At(op, 101), balanced) << "decoding is not balanced";
}

TEST_F(DeepEpExperts, MissHasNoEstimate) {
  MoeExpertCompute op = Op("uniform", "context");
  op.hidden_size = 999;
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kSilicon), 16)), ErrorKind::kPerfDatabase);
  EXPECT_EQ(KindOf(Ask(op, system_.Open(DatabaseMode::kHybrid), 16)),
            ErrorKind::kEmpiricalNotImplemented);
  for (const DatabaseMode mode :
       {DatabaseMode::kSol, DatabaseMode::kSolFull, DatabaseMode::kEmpirical}) {
    EXPECT_EQ(KindOf(Ask(Op("uniform", "context"), system_.Open(mode), 16)),
              ErrorKind::kEmpiricalNotImplemented);
  }
}

TEST_F(DeepEpExperts, PhaseIsCheckedInEveryMode) {
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kSol}) {
    EXPECT_EQ(KindOf(Ask(Op("uniform", "prefill"), system_.Open(mode), 16)),
              ErrorKind::kInvalidEngineConfig);
  }
}

TEST_F(DeepEpExperts, BeyondTheCurveTheRooflineOfSlotsHolds) {
  const MoeExpertCompute op = Op("uniform", "context");
  // Far beyond the curve the math bound rules and the last point's utilisation stays.
  const double far = At(op, 1 << 20);
  EXPECT_DOUBLE_EQ(At(op, 1 << 21) / far, 2.0);
}

TEST(ExpertSubstitution, VllmTakesRoutedExpertMeasurements) {
  MadeUpSystem system{Backend::kVllm};
  system.Put("moe_expert_compute_perf", Rows("deepep_moe"));
  system.Put("moe_perf", {MoeRow(16, 0.6), MoeRow(256, 1.2)});
  MoeExpertCompute op = Op("uniform", "context");
  op.hidden_size = 2048;
  op.scale_factor = 2.0;
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid}) {
    const auto result = Ask(op, system.Open(mode), 16);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->latency_ms, 1.2);
    EXPECT_DOUBLE_EQ(result->energy_wms, 120.0);
    EXPECT_EQ(result->source, Source::kSilicon);
    op.hidden_size = 999;
    EXPECT_EQ(KindOf(Ask(op, system.Open(mode), 16)), ErrorKind::kPerfDatabase);
    op.hidden_size = 2048;
  }
}

TEST(ExpertKernels, TrtllmPrefersItsUsualKernelThenTheFirst) {
  MadeUpSystem usual{Backend::kTrtllm};
  std::vector<Row> rows = Rows("another_kernel");
  rows.push_back(ComputeRow("moe_torch_flow", "uniform", "context", 16, 5.0));
  usual.Put("moe_expert_compute_perf", rows);
  EXPECT_EQ(Ask(Op("uniform", "context"), usual.Open(DatabaseMode::kSilicon), 16)->latency_ms, 5.0);
  MoeExpertCompute named = Op("uniform", "context");
  named.kernel_source = "another_kernel";
  EXPECT_EQ(Ask(named, usual.Open(DatabaseMode::kSilicon), 16)->latency_ms, 0.2);

  MadeUpSystem other{Backend::kTrtllm};
  other.Put("moe_expert_compute_perf", Rows("another_kernel"));
  EXPECT_EQ(Ask(Op("uniform", "context"), other.Open(DatabaseMode::kSilicon), 16)->latency_ms, 0.2);
}

}  // namespace
}  // namespace infercast
