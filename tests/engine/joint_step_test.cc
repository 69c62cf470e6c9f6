// Native mixed steps: what is paired with what, what happens beyond either bound, energy and names,
// on operators that can be priced by hand.
#include "engine/joint_step.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/data_free.h"
#include "support/made_up_system.h"
#include "tables/digest.h"

namespace infercast {
namespace {

using testing::DataFreeSystem;
using testing::Kernel;

// ms of a kernel over `bytes` in all.
double Ms(double bytes, double launches = 1) { return bytes / 3.84e9 + 0.003 * launches; }

Elementwise Coarse(std::string name, double bytes, std::uint32_t tokens_each) {
  Elementwise op = Kernel(std::move(name), bytes, 1);
  op.scale_num_tokens = tokens_each;
  return op;
}

class JointSteps : public ::testing::Test {
 protected:
  std::shared_ptr<const Engine> Native(std::vector<Operator> context,
                                       std::vector<Operator> generation,
                                       std::optional<std::uint32_t> nextn = std::nullopt) {
    EngineSpec spec = system_.Spec(nextn);
    if (!context.empty()) spec.context_ops = std::move(context);
    if (!generation.empty()) spec.generation_ops = std::move(generation);
    auto engine = Engine::Open(spec, system_.root(), Behaviour::kNative);
    EXPECT_TRUE(engine) << engine.error().message;
    return *engine;
  }
  DataFreeSystem system_;
};

constexpr MixedShape kShape{.context_tokens = 30, .decodes = 5, .isl = 30, .osl = 70};

void ExpectEntries(const Breakdown& breakdown,
                   const std::vector<std::pair<std::string, double>>& expected) {
  ASSERT_EQ(breakdown.entries.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(breakdown.entries[i].name, expected[i].first);
    EXPECT_DOUBLE_EQ(breakdown.entries[i].latency_ms, expected[i].second) << expected[i].first;
  }
}

TEST_F(JointSteps, OneKindOfWorkIsThatPass) {
  for (const std::optional<std::uint32_t> nextn : {std::optional<std::uint32_t>(), {2}}) {
    const auto engine = Native({}, {}, nextn);
    const MixedShape decode{.decodes = 5, .isl = 100, .osl = 70, .prefix = 20};
    EXPECT_NEAR(engine->MixedStep(decode)->total_ms(), engine->DecodeStep(5, 100, 70)->latency_ms,
                1e-15);
    const MixedShape prefill{.context_tokens = 300, .isl = 100, .osl = 70, .prefix = 20};
    EXPECT_NEAR(engine->MixedStep(prefill)->total_ms(), *engine->PredictPrefill(3, 100, 20), 1e-15);
  }
}

TEST_F(JointSteps, WithinTheBoundsOnePassOverAllTokensCounts) {
  const auto engine =
      Native({Kernel("context_norm", 1e6, 2), Kernel("context_attention", 2e6, 1),
              Coarse("context_gate", 1e6, 1)},
             {Kernel("generation_norm", 1e6, 2), Kernel("generation_attention", 3e6, 1),
              Coarse("generation_gate", 2e6, 1)});
  const auto parts = engine->ExplainMixedStep(kShape);
  ASSERT_TRUE(parts);
  ExpectEntries(parts->shared, {{"context_norm", 2 * Ms(35e6)}, {"context_gate", Ms(35e6)}});
  ExpectEntries(parts->context_attention, {{"context_attention", Ms(60e6)}});
  ExpectEntries(parts->decode_attention, {{"generation_attention", Ms(15e6)}});
  EXPECT_DOUBLE_EQ(engine->MixedStep(kShape)->total_ms(), 3 * Ms(35e6) + Ms(60e6) + Ms(15e6));
}

TEST_F(JointSteps, AboveTheSumTwoPassesCount) {
  // Tokens in blocks of four, rounded down: three and one are none apart and one together.
  const auto engine =
      Native({Coarse("context_block", 1e9, 4)}, {Coarse("generation_block", 1e9, 4)});
  const MixedShape shape{.context_tokens = 3, .decodes = 1, .isl = 3, .osl = 2};
  const auto parts = engine->ExplainMixedStep(shape);
  ASSERT_TRUE(parts);
  ExpectEntries(parts->shared, {{"context_block", Ms(0, 2)}});
  EXPECT_DOUBLE_EQ(engine->MixedStep(shape)->total_ms(), Ms(0, 2));
  // The reference prices the joint pass.
  EngineSpec spec = system_.Spec(std::nullopt);
  spec.context_ops = {Coarse("context_block", 1e9, 4)};
  spec.generation_ops = {Coarse("generation_block", 1e9, 4)};
  const auto reference = Engine::Open(spec, system_.root(), Behaviour::kReference);
  ASSERT_TRUE(reference);
  EXPECT_DOUBLE_EQ((*reference)->MixedStep(shape)->total_ms(), Ms(1e9));
}

TEST_F(JointSteps, BelowTheLargerPassThatPassCounts) {
  const auto engine =
      Native({Kernel("context_experts", 1e6, 1)}, {Kernel("generation_experts", 1e9, 1)});
  const auto parts = engine->ExplainMixedStep(kShape);
  ASSERT_TRUE(parts);
  ExpectEntries(parts->shared, {{"context_experts", Ms(5e9)}});
  EXPECT_DOUBLE_EQ(engine->MixedStep(kShape)->total_ms(), Ms(5e9));
}

TEST_F(JointSteps, ListsThatAreCutDifferentlyAreHeldTogether) {
  Overlap overlap;
  overlap.name = "generation_moe_overlap";
  overlap.group_a = {Kernel("p", 4e6, 1)};
  overlap.group_b = {Kernel("q", 1e6, 1)};
  const std::vector<Operator> context = {Kernel("context_norm", 1e6, 1),
                                         Kernel("context_router", 1e6, 1),
                                         Kernel("context_moe", 3e6, 1)};
  const std::vector<Operator> generation = {Kernel("generation_norm", 1e6, 1), overlap};
  const auto within = Native(context, generation)->ExplainMixedStep(kShape);
  ASSERT_TRUE(within);
  ExpectEntries(
      within->shared,
      {{"context_norm", Ms(35e6)}, {"context_router", Ms(35e6)}, {"context_moe", Ms(105e6)}});
  // Decodes dearer than everything together: their own operators count.
  const MixedShape many{.context_tokens = 4, .decodes = 4000, .isl = 4, .osl = 2};
  overlap.group_a = {Kernel("p", 8e6, 1)};
  const auto decodes =
      Native(context, {Kernel("generation_norm", 1e6, 1), overlap})->ExplainMixedStep(many);
  ASSERT_TRUE(decodes);
  ExpectEntries(decodes->shared,
                {{"context_norm", Ms(4004e6)}, {"generation_moe_overlap", Ms(4000 * 8e6)}});
  // Above the sum: both lists' operators count.
  const MixedShape small{.context_tokens = 3, .decodes = 1, .isl = 3, .osl = 2};
  const auto apart = Native({Coarse("context_a", 1e9, 4), Coarse("context_b", 1e9, 4)},
                            {Coarse("generation_ab", 2e9, 4)})
                         ->ExplainMixedStep(small);
  ASSERT_TRUE(apart);
  ExpectEntries(apart->shared,
                {{"context_a", Ms(0)}, {"context_b", Ms(0)}, {"generation_ab", Ms(0)}});
}

// Layers that differ repeat names: the second stands for the second.
TEST_F(JointSteps, RepeatedNamesArePairedInOrder) {
  const auto engine = Native({Coarse("context_ffn", 1e6, 1), Coarse("context_ffn", 1e6, 1)},
                             {Coarse("generation_ffn", 1e9, 1), Coarse("generation_ffn", 1e3, 1)});
  EXPECT_DOUBLE_EQ(engine->MixedStep(kShape)->total_ms(), Ms(5e9) + Ms(35e6));
}

// A block that contains attention is priced apart for both kinds of work.
TEST_F(JointSteps, BlocksWithAttentionAreAttention) {
  Fallback block;
  block.name = "context_mla_block";
  ContextAttention attention;
  attention.name = "context_mla";
  block.primary = Box<Operator>(attention);
  block.fallback = {Kernel("x", 1e6, 1)};
  const auto engine = Native({block}, {Kernel("generation_norm", 1e6, 1)});
  const auto parts =
      engine->ExplainMixedStep({.context_tokens = 10, .decodes = 3, .isl = 30, .osl = 70});
  ASSERT_TRUE(parts) << parts.error().message;
  ExpectEntries(parts->context_attention, {{"context_mla_block", Ms(30e6) / 3}});
  ExpectEntries(parts->shared, {{"generation_norm", Ms(3e6)}});
}

TEST_F(JointSteps, NothingLeftToPrefillIsAnError) {
  const auto engine = Native({}, {});
  const auto cost =
      engine->MixedStep({.context_tokens = 16, .decodes = 9, .isl = 4, .osl = 2, .prefix = 4});
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().kind, ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(engine->MixedStep({.isl = 100, .osl = 70, .prefix = 200})->total_ms(), 0.0);
}

TEST_F(JointSteps, ObservedPassesKeepTheBounds) {
  const auto engine =
      Native({Coarse("context_block", 1e9, 4), Kernel("context_attention", 2e6, 1)},
             {Coarse("generation_block", 1e9, 4), Kernel("generation_attention", 3e6, 1)});
  const ScheduledRequests prefill{.num_prefill_requests = 1, .sum_prefill_tokens = 3};
  const ScheduledRequests decode{.num_decode_requests = 1, .sum_decode_kv_tokens = 40};
  ScheduledRequests both = prefill;
  both.num_decode_requests = 1;
  both.sum_decode_kv_tokens = 40;
  const auto pass = [&](const ScheduledRequests& r) {
    return engine->ObservedForwardPass(std::span(&r, 1)).value();
  };
  EXPECT_DOUBLE_EQ(pass(prefill), Ms(0) + Ms(6e6));
  EXPECT_DOUBLE_EQ(pass(decode), Ms(0) + Ms(3e6));
  EXPECT_DOUBLE_EQ(pass(both), pass(prefill) + pass(decode));
}

// Prompts that do not share their tokens evenly still have all of them.
TEST_F(JointSteps, ObservedPassesCountEveryPromptToken) {
  const std::vector<Operator> context = {Kernel("context_norm", 1e6, 1)};
  const std::vector<Operator> generation = {Kernel("generation_norm", 1e6, 1)};
  const auto native = Native(context, generation);
  const auto pass = [](const Engine& engine, std::uint32_t tokens, std::uint32_t decodes) {
    const ScheduledRequests r{.num_prefill_requests = 100,
                              .sum_prefill_tokens = tokens,
                              .num_decode_requests = decodes,
                              .sum_decode_kv_tokens = decodes * 40};
    return engine.ObservedForwardPass(std::span(&r, 1)).value();
  };
  EXPECT_DOUBLE_EQ(pass(*native, 100, 0), Ms(100e6));
  EXPECT_DOUBLE_EQ(pass(*native, 199, 0), Ms(199e6));
  EXPECT_DOUBLE_EQ(pass(*native, 199, 5), Ms(204e6));
  // The reference takes each of the requests for the mean, rounded down.
  EngineSpec spec = system_.Spec(std::nullopt);
  spec.context_ops = context;
  spec.generation_ops = generation;
  const auto reference = Engine::Open(spec, system_.root(), Behaviour::kReference);
  ASSERT_TRUE(reference);
  EXPECT_DOUBLE_EQ(pass(**reference, 199, 0), Ms(100e6));
  EXPECT_DOUBLE_EQ(pass(**reference, 199, 5), Ms(204e6));
}

// Whole forward passes: nobody measured mixed ones; they are composed, within the same bounds.
class WholeMixedSteps : public ::testing::Test {
 protected:
  void Put(const std::vector<testing::Row>& rows) {
    system_.Put("fpm_forward_perf", rows);
    const auto digest = Sha256OfFile(system_.Folder() / "fpm_forward_perf.parquet");
    testing::WriteText(system_.Folder() / "fpm_forward_perf.metadata.json",
                       R"({"schema_name": "aic_fpm_forward_perf", "schema_version": 6,
            "coordinate_system": "iteration_totals_balanced_v1",
            "measurement_policy": "dynamo_native_single_sample_v1", "system": "made_up",
            "backend": "vllm", "backend_version": "1.0.0", "row_count": )" +
                           std::to_string(rows.size()) + R"(, "parquet_sha256": ")" +
                           ToHex(*digest) + "\"}");
  }
  static testing::Row Row(const char* phase, std::int64_t batch, std::int64_t tokens,
                          std::int64_t kv, double latency) {
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
  static FpmForward Op(FpmPhase phase) {
    FpmForward op;
    op.name = phase == FpmPhase::kPrefill ? "fpm_forward_prefill" : "fpm_forward_decode";
    op.phase = phase;
    op.model_path = "some/model";
    op.match_identity = {"bfloat16", "bfloat16", "bfloat16", "half",  "bfloat16",
                         "1",        "1",        "1",        "1",     "1",
                         "1",        "auto",     "auto",     "False", "False"};
    op.sol_ops = {Kernel("norm", 8192, 1)};
    return op;
  }
  std::shared_ptr<const Engine> Open(Behaviour behaviour) {
    EngineSpec spec;
    spec.context_ops = {Op(FpmPhase::kPrefill)};
    spec.generation_ops = {Op(FpmPhase::kDecode)};
    auto engine = Engine::Bind(spec, system_.Open(DatabaseMode::kSilicon, {}, false, behaviour));
    EXPECT_TRUE(engine) << engine.error().message;
    return *engine;
  }
  testing::MadeUpSystem system_{Backend::kVllm};
};

void ExpectWhole(const Engine& engine, const MixedShape& shape, double mixed) {
  const auto cost = engine.MixedStep(shape);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_NEAR(cost->total_ms(), mixed, 1e-9);
  const auto parts = engine.ExplainMixedStep(shape);
  ASSERT_TRUE(parts);
  EXPECT_DOUBLE_EQ(parts->shared.TotalLatency() + parts->decode_attention.TotalLatency(),
                   cost->total_ms());
}

TEST_F(WholeMixedSteps, AJumpBetweenPrefillSizesCountsAtMostBothPasses) {
  Put({Row("prefill", 1, 1000, 0, 10), Row("prefill", 1, 1010, 0, 30),
       Row("prefill", 1, 2000, 0, 40), Row("decode", 10, 0, 20, 2.5),
       Row("decode", 10, 0, 20000, 3)});
  const MixedShape shape{.context_tokens = 1000, .decodes = 10, .isl = 1000, .osl = 2};
  const auto native = Open(Behaviour::kNative);
  const auto decode = native->DecodeStep(10, 1000, 2);
  ASSERT_TRUE(decode) << decode.error().message;
  ExpectWhole(*native, shape, 10 + decode->latency_ms);
  ExpectWhole(*Open(Behaviour::kReference), shape, 30 + decode->latency_ms - 2.5);
}

TEST_F(WholeMixedSteps, DecodesAreNeverCheaperBesideAPrefill) {
  Put({Row("prefill", 1, 16, 0, 1), Row("prefill", 1, 2000, 0, 2), Row("decode", 10, 0, 20, 19),
       Row("decode", 10, 0, 20000, 20)});
  const MixedShape shape{.context_tokens = 100, .decodes = 10, .isl = 100, .osl = 2};
  const auto native = Open(Behaviour::kNative);
  const auto decode = native->DecodeStep(10, 100, 2);
  ASSERT_TRUE(decode) << decode.error().message;
  ExpectWhole(*native, shape, decode->latency_ms);
  EXPECT_LT(Open(Behaviour::kReference)->MixedStep(shape)->total_ms(), 4);
  const ScheduledRequests both{.num_prefill_requests = 1,
                               .sum_prefill_tokens = 100,
                               .num_decode_requests = 10,
                               .sum_decode_kv_tokens = 1000};
  const ScheduledRequests only{.num_decode_requests = 10, .sum_decode_kv_tokens = 1000};
  EXPECT_NEAR(native->ObservedForwardPass(std::span(&both, 1)).value(),
              native->ObservedForwardPass(std::span(&only, 1)).value(), 1e-12);
  // Nor where only prefill and decodes together are as many tokens as were measured.
  const MixedShape few{.context_tokens = 10, .decodes = 10, .isl = 10, .osl = 2};
  ASSERT_FALSE(native->MixedStep({.context_tokens = 10, .isl = 10, .osl = 2}));
  ExpectWhole(*native, few, native->DecodeStep(10, 10, 2).value().latency_ms);
  EXPECT_LT(Open(Behaviour::kReference)->MixedStep(few)->total_ms(), 4);
}

}  // namespace
}  // namespace infercast
