// Engine descriptions of built models: identity, data types, lanes.
#include "models/compile.h"

#include <gtest/gtest.h>

#include "models/model_support.h"

namespace infercast {
namespace {

using testing::Build;
using testing::Find;
using testing::Options;
using testing::Parse;

EngineTarget Target() {
  EngineTarget target;
  target.system = "made_up";
  target.backend_version = "1.2.3";
  return target;
}

TEST(Compile, CarriesTheIdentity) {
  BuildOptions options = Options(Backend::kSglang, {.tp = 2, .dp = 2, .moe_ep = 4});
  options.nextn = 1;
  const auto spec =
      CompileEngineSpec(Build(Parse(testing::Qwen3Moe(testing::kFp8Block)), options), Target());
  ASSERT_TRUE(spec) << spec.error().message;
  const EngineConfig& e = spec->engine;
  EXPECT_EQ(e.model_name, "test/model");
  EXPECT_EQ(e.system_name, "made_up");
  EXPECT_EQ(e.backend, "sglang");
  EXPECT_EQ(e.backend_version, "1.2.3");
  EXPECT_EQ(e.moe_tp_size, 1u);
  EXPECT_EQ(e.moe_ep_size, 4u);
  EXPECT_EQ(e.cp_size, 1u);
  EXPECT_EQ(e.nextn, 1u);
  EXPECT_EQ(e.weight_dtype, DataType::kFp8Block);
  EXPECT_EQ(e.transfer_policy, std::nullopt);
  EXPECT_EQ(e.forward_model, std::nullopt);
}

TEST(Compile, DenseModelsKeepTheirExpertSizesOpen) {
  const auto spec = CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), {}), Target());
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->engine.moe_tp_size, std::nullopt);
  EXPECT_EQ(spec->engine.nextn, std::nullopt);
}

TEST(Compile, ListsThePolicyInAlphabeticalOrder) {
  EngineTarget target = Target();
  target.policy.xprofile = false;
  const auto some = CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), {}), target);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->engine.transfer_policy, (std::vector<std::string>{"xop", "xquant", "xshape"}));
  target.policy = {false, false, false, false};
  const auto none = CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), {}), target);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->engine.transfer_policy, std::vector<std::string>{});
}

TEST(Compile, BindsLanesAlsoInsideAWholeForwardPass) {
  const AttentionLaneOrders lanes{{"a", "default"}, {"b", "default"}};
  BuildOptions options;
  const auto plain =
      CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), options), Target(), lanes);
  ASSERT_TRUE(plain);
  EXPECT_EQ(Find<ContextAttention>(plain->context_ops, "context_attention").lane_order,
            lanes.context);
  EXPECT_EQ(Find<GenerationAttention>(plain->generation_ops, "generation_attention").lane_order,
            lanes.generation);
  options.forward_model = ForwardModel::kWholeForward;
  const auto whole =
      CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), options), Target(), lanes);
  ASSERT_TRUE(whole);
  const auto& pass = Find<FpmForward>(whole->context_ops, "fpm_forward_prefill");
  EXPECT_EQ(Find<ContextAttention>(pass.sol_ops, "context_attention").lane_order, lanes.context);
}

TEST(Compile, ANamedAttentionBackendNeedsLanes) {
  BuildOptions options;
  options.attention_backend = "fa3";
  const auto spec = CompileEngineSpec(Build(Parse(testing::Qwen3Dense()), options), Target());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().kind, ErrorKind::kInvalidArgument);
}

TEST(Compile, RetiredDispatchesAreRefusedWhereverTheyStand) {
  ModelPlan plan = Build(Parse(testing::Qwen3Dense()), {});
  MoeDispatch retired;
  retired.flavor = DispatchFlavor::kRetiredDeepEp;
  plan.generation_ops.emplace_back(
      Overlap{.name = "o", .group_a = {}, .group_b = {Operator(retired)}});
  const auto spec = CompileEngineSpec(std::move(plan), Target());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().kind, ErrorKind::kUnsupportedModel);
}

TEST(DataTypes, FollowTheModes) {
  EXPECT_EQ(WeightDataType(GemmQuant::kFp8Ootb), DataType::kFp8);
  EXPECT_EQ(WeightDataType(GemmQuant::kSq), DataType::kInt8);
  EXPECT_EQ(WeightDataType(GemmQuant::kNvfp4Wo), std::nullopt);
  EXPECT_EQ(MoeDataType(MoeQuant::kInt4Wo), DataType::kInt4);
  EXPECT_EQ(MoeDataType(MoeQuant::kW4a16Mxfp4), DataType::kW4a16Mxfp4);
  EXPECT_EQ(MoeDataType(MoeQuant::kW4a16Mxfp4Cutlass), DataType::kW4a16Mxfp4Cutlass);
  EXPECT_EQ(ActivationDataType(FmhaQuant::kFp8Block), DataType::kFp8Block);
  EXPECT_EQ(KvDataType(KvQuant::kInt8), DataType::kInt8);
}

TEST(DataTypes, GiveModesBackWhereTheyCan) {
  EngineConfig config;
  config.weight_dtype = DataType::kInt8;
  config.moe_dtype = DataType::kW4a8Mxfp4Mxfp8Trtllm;
  config.activation_dtype = DataType::kNvfp4;
  config.kv_cache_dtype = DataType::kFp8;
  const QuantOverrides modes = QuantFromDataTypes(config);
  EXPECT_EQ(modes.gemm, GemmQuant::kInt8Wo);
  EXPECT_EQ(modes.moe, std::nullopt);
  EXPECT_EQ(modes.fmha, std::nullopt);
  EXPECT_EQ(modes.kv, KvQuant::kFp8);
}

}  // namespace
}  // namespace infercast
