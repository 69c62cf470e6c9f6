// Which collectives move tokens around the experts, and what their sum is.
#include "operators/moe_dispatch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "operators/bound_operator.h"
#include "support/data_files.h"
#include "support/made_up_system.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;

MoeDispatch Op(DispatchFlavor flavor, Backend backend, std::uint32_t tp, std::uint32_t ep,
               std::uint32_t dp, bool pre) {
  MoeDispatch op;
  op.name = "dispatch";
  op.scale_factor = 1.0;
  op.hidden_size = 1000;
  op.topk = 8;
  op.num_experts = 256;
  op.moe_tp_size = tp;
  op.moe_ep_size = ep;
  op.attention_dp_size = dp;
  op.pre_dispatch = pre;
  op.backend = backend;
  op.flavor = flavor;
  op.moe_quant = MoeQuant::kFp8Block;
  return op;
}

Result<PerfResult> Ask(const Operator& op, const Database& db, std::uint32_t tokens) {
  QueryContext ctx;
  ctx.num_tokens = tokens;
  return BoundOperator::Bind(op, db).Query(ctx);
}

// Rooflines need no table, so they show which collectives were chosen.
class DispatchPlan : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kTokens = 100;

  double Of(const MoeDispatch& op) const {
    const auto result = Ask(op, db_, kTokens);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->latency_ms : -1;
  }
  // Rooflines of the two collectives for tokens of 1000 elements.
  double AllReduce(std::uint32_t gpus) const {
    CustomAllReduce op;
    op.scale_factor = 1.0;
    op.hidden_size = 1000;
    op.tp_size = gpus;
    return Ask(op, db_, kTokens)->latency_ms;
  }
  double Collective(const char* operation, std::uint32_t gpus, std::uint32_t token_factor,
                    double hidden = 1000) const {
    Nccl op;
    op.scale_factor = 1.0;
    op.hidden_size = hidden;
    op.num_gpus = gpus;
    op.operation = operation;
    return Ask(op, db_, kTokens * token_factor)->latency_ms;
  }
  double Gather(std::uint32_t gpus, std::uint32_t factor, double hidden = 1000) const {
    return Collective("all_gather", gpus, factor, hidden);
  }
  double Scatter(std::uint32_t gpus, std::uint32_t factor) const {
    return Collective("reduce_scatter", gpus, factor);
  }

  MadeUpSystem blackwell_{Backend::kVllm, "  fp4_tc_flops: 400000000000000\n  sm_version: 100\n"};
  Database db_ = blackwell_.Open(DatabaseMode::kSol);
};

constexpr auto kPlain = DispatchFlavor::kCustomAllReduce;
constexpr auto kTrtllmFlavor = DispatchFlavor::kTrtllmAlltoall;

TEST_F(DispatchPlan, Vllm) {
  constexpr Backend kB = Backend::kVllm;
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 1, true)), AllReduce(8));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 8, true)), Gather(8, 8));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 8, false)), Scatter(8, 8));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 4, true)), AllReduce(8) + Gather(8, 4));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 1, 1, true)), 0.0);
  MoeDispatch modeled = Op(kPlain, kB, 1, 8, 1, true);
  modeled.attn_ar_modeled = true;
  EXPECT_EQ(Of(modeled), 0.0);
  modeled.pre_dispatch = false;
  EXPECT_EQ(Of(modeled), AllReduce(8));
}

TEST_F(DispatchPlan, Sglang) {
  constexpr Backend kB = Backend::kSglang;
  EXPECT_EQ(Of(Op(kPlain, kB, 2, 4, 2, true)), Scatter(4, 1) + Gather(8, 2));
  EXPECT_EQ(Of(Op(kPlain, kB, 2, 4, 2, false)), Scatter(8, 2) + Gather(4, 1));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 1, true)), AllReduce(8));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 8, true)), Gather(8, 8));
  EXPECT_EQ(Of(Op(kPlain, kB, 1, 8, 8, false)), Scatter(8, 8));
  MoeDispatch cp = Op(kPlain, kB, 1, 8, 1, true);
  cp.attn_cp_size = 8;
  EXPECT_EQ(Of(cp), 0.0) << "decoding gathers nothing";
  cp.pre_dispatch = false;
  EXPECT_EQ(Of(cp), AllReduce(8));
  cp.is_context = true;
  EXPECT_EQ(Of(cp), Scatter(8, 1));
  cp.pre_dispatch = true;
  EXPECT_EQ(Of(cp), Gather(8, 1));
}

TEST_F(DispatchPlan, TrtllmOnBlackwellSendsTheQuantisedPayload) {
  MoeDispatch op = Op(kTrtllmFlavor, Backend::kTrtllm, 1, 8, 8, true);
  EXPECT_EQ(Of(op), Gather(8, 8, 500));
  op.moe_quant = MoeQuant::kNvfp4;
  EXPECT_EQ(Of(op), Gather(8, 8, 281.25));
  op.moe_quant = MoeQuant::kBfloat16;
  EXPECT_EQ(Of(op), Gather(8, 8));
  op.pre_dispatch = false;
  EXPECT_EQ(Of(op), Scatter(8, 8));
  EXPECT_EQ(Of(Op(kTrtllmFlavor, Backend::kTrtllm, 2, 4, 2, true)), Gather(8, 2, 500))
      << "data parallelism is asked first";
  EXPECT_EQ(Of(Op(kTrtllmFlavor, Backend::kTrtllm, 1, 8, 1, true)), AllReduce(8));
}

TEST_F(DispatchPlan, TrtllmElsewhereAsksTensorParallelismFirst) {
  const MadeUpSystem hopper{Backend::kTrtllm, "  sm_version: 90\n"};
  const Database db = hopper.Open(DatabaseMode::kSol);
  const auto of = [&](const MoeDispatch& op) { return Ask(op, db, kTokens)->latency_ms; };
  EXPECT_EQ(of(Op(kTrtllmFlavor, Backend::kTrtllm, 2, 4, 2, true)), AllReduce(8));
  EXPECT_EQ(of(Op(kTrtllmFlavor, Backend::kTrtllm, 1, 8, 8, true)), Gather(8, 8));
  EXPECT_EQ(of(Op(kTrtllmFlavor, Backend::kTrtllm, 1, 8, 8, false)), Scatter(8, 8));
  // The plain flavor reduces over the attention ranks only.
  EXPECT_EQ(of(Op(kPlain, Backend::kTrtllm, 1, 8, 2, true)), AllReduce(4));
}

TEST_F(DispatchPlan, NoDataParallelRanksActAsOne) {
  EXPECT_EQ(Of(Op(kPlain, Backend::kVllm, 1, 8, 0, true)), AllReduce(8));
}

TEST_F(DispatchPlan, SumIsLabelledSiliconAndScaled) {
  MoeDispatch op = Op(kPlain, Backend::kVllm, 1, 8, 4, true);
  op.scale_factor = 3.0;
  const auto result = Ask(op, db_, kTokens);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->latency_ms, (AllReduce(8) + Gather(8, 4)) * 3.0);
  EXPECT_EQ(result->energy_wms, 0.0);
  EXPECT_EQ(result->source, Source::kSilicon);
  EXPECT_FALSE(result->has_sol);
  EXPECT_EQ(result->origin.kind, OriginKind::kSpeedOfLight) << "our own label stays true";
}

TEST_F(DispatchPlan, TokenProductWrapsAt32Bits) {
  const MoeDispatch op = Op(kPlain, Backend::kVllm, 1, 8, 8, true);
  EXPECT_EQ(Ask(op, db_, (1u << 29) + 5)->latency_ms, Ask(op, db_, 5)->latency_ms);
}

TEST_F(DispatchPlan, RetiredFlavorIsAWrongConfiguration) {
  const auto result =
      Ask(Op(DispatchFlavor::kRetiredDeepEp, Backend::kSglang, 1, 8, 8, true), db_, kTokens);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST_F(DispatchPlan, MissingPartIsMissing) {
  const auto result =
      Ask(Op(kPlain, Backend::kVllm, 1, 8, 8, true), blackwell_.Open(DatabaseMode::kSilicon), 64);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
}

// No shipped system has 72 GPUs in a node; a rack-scale one does its own all-to-all.
class RackScaleNode : public ::testing::Test {
 protected:
  void Prepare(const std::filesystem::path& systems) {
    std::string yaml = testing::ReadText(systems / "gb200.yaml");
    yaml = std::regex_replace(yaml, std::regex("num_gpus_per_node: *4"), "num_gpus_per_node: 72");
    testing::WriteText(root_.path() / "gb200.yaml", yaml);
    std::filesystem::create_directory_symlink(systems / "data", root_.path() / "data");
  }
  Result<PerfResult> Query(const Operator& op, DatabaseMode mode, std::uint32_t tokens) const {
    DatabaseIdentity identity =
        testing::Identity(root_.path(), "gb200", Backend::kTrtllm, "1.3.0rc10");
    identity.shared_layer = false;
    auto store = TableStore::Open(identity);
    if (!store) return std::unexpected(store.error());
    return Ask(op, Database(*std::move(store), mode, {}, Behaviour::kReference), tokens);
  }
  static MoeDispatch Dispatch(bool pre, MoeQuant quant) {
    MoeDispatch op = Op(kTrtllmFlavor, Backend::kTrtllm, 1, 8, 8, pre);
    op.hidden_size = 7168;
    op.moe_quant = quant;
    return op;
  }
  testing::TemporaryDirectory root_;
};

TEST_F(RackScaleNode, OwnAllToAll) {
  IC_REQUIRE_DATA(systems);
  Prepare(systems);
  struct Case {
    DatabaseMode mode;
    double dispatch, combine;
    Tier tier;
  };
  for (const Case& c :
       {Case{DatabaseMode::kSilicon, 0.033547499962151055, 0.07116495203226805, Tier::kSilicon},
        Case{DatabaseMode::kEmpirical, 0.033548976838374114, 0.07118654040018774, Tier::kEmpirical},
        Case{DatabaseMode::kSol, 0.01044288, 0.03713024, Tier::kSilicon}}) {
    const auto dispatch = Query(Dispatch(true, MoeQuant::kNvfp4), c.mode, 333);
    ASSERT_TRUE(dispatch) << dispatch.error().message;
    EXPECT_NEAR(dispatch->latency_ms, c.dispatch, 1e-12 * c.dispatch);
    EXPECT_EQ(dispatch->tier, c.tier);
    EXPECT_EQ(dispatch->source, Source::kSilicon);
    const auto combine = Query(Dispatch(false, MoeQuant::kNvfp4), c.mode, 333);
    ASSERT_TRUE(combine) << combine.error().message;
    EXPECT_NEAR(combine->latency_ms, c.combine, 1e-12 * c.combine);
  }
}

TEST_F(RackScaleNode, FormatThatWasNotMeasured) {
  IC_REQUIRE_DATA(systems);
  Prepare(systems);
  const Operator op = Dispatch(true, MoeQuant::kFp8);
  EXPECT_NEAR(Query(op, DatabaseMode::kSol, 333)->latency_ms, 0.01856512, 1e-13);
  EXPECT_EQ(Query(op, DatabaseMode::kSilicon, 333).error().kind, ErrorKind::kPerfDatabase);
  EXPECT_EQ(Query(op, DatabaseMode::kHybrid, 333).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
}

}  // namespace
}  // namespace infercast
