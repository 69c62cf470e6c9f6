// What a checkpoint's quantisation notes mean for the modes of a build.
#include "models/quantisation.h"

#include <gtest/gtest.h>

#include <array>

#include "models/model_support.h"

namespace infercast {
namespace {

struct Inferred {
  std::string gemm, moe, kv, fmha;
  bool operator==(const Inferred&) const = default;
  friend void PrintTo(const Inferred& i, std::ostream* out) {
    *out << i.gemm << ", " << i.moe << ", " << i.kv << ", " << i.fmha;
  }
};

template <typename E>
std::string Spell(const std::optional<E>& mode) {
  return mode ? std::string(ToString(*mode)) : "-";
}

Inferred Infer(const std::string& members, const std::string& hf_quant = "") {
  const ModelConfig m = testing::Parse(testing::Qwen3Dense(members), hf_quant);
  EXPECT_FALSE(m.quant_error) << m.quant_error->message;
  const QuantOverrides& q = m.inferred_quant;
  return {Spell(q.gemm), Spell(q.moe), Spell(q.kv), Spell(q.fmha)};
}

std::string Config(const std::string& members) {
  return ", \"quantization_config\": {" + members + "}";
}

TEST(Quantisation, UnquantisedCheckpointsSayNothing) {
  EXPECT_EQ(Infer(""), (Inferred{"-", "-", "-", "-"}));
  EXPECT_EQ(Infer(", \"quantization_config\": null"), (Inferred{"-", "-", "-", "-"}));
}

TEST(Quantisation, Fp8FollowsItsScales) {
  EXPECT_EQ(Infer(Config(R"("quant_method": "fp8")")),
            (Inferred{"fp8_static", "fp8", "fp8", "fp8"}));
  EXPECT_EQ(Infer(Config(R"("quant_method": "fp8", "activation_scheme": "dynamic")")),
            (Inferred{"fp8", "fp8", "fp8", "fp8"}));
  EXPECT_EQ(Infer(std::string(testing::kFp8Block)),
            (Inferred{"fp8_block", "fp8_block", "fp8", "fp8"}));
}

TEST(Quantisation, ModelOptFilesCount) {
  EXPECT_EQ(Infer("", R"({"quantization": {"quant_algo": "NVFP4"}})"),
            (Inferred{"nvfp4", "nvfp4", "fp8", "fp8"}));
  EXPECT_EQ(Infer("", R"({"quantization": {"quant_algo": "W4A16_MXFP4"}})"),
            (Inferred{"bfloat16", "w4a16_mxfp4", "-", "-"}));
}

TEST(Quantisation, Fp8KvAloneBringsFp8Attention) {
  EXPECT_EQ(Infer(Config(R"("quant_method": "mxfp4", "kv_cache_scheme":
                             {"type": "float", "num_bits": 8})")),
            (Inferred{"bfloat16", "w4a16_mxfp4", "fp8", "fp8"}));
  EXPECT_EQ(Infer(Config(R"("kv_cache_quant_algo": "e4m3")")), (Inferred{"-", "-", "fp8", "-"}));
}

TEST(Quantisation, CompressedTensorsFollowTheirGroupsAndIgnores) {
  const auto groups = [](const std::string& weights, const std::string& ignore = "") {
    return Config(R"("quant_method": "compressed-tensors", "ignore": [)" + ignore +
                  R"(], "config_groups": {"group_0": {"weights": {)" + weights + "}}}");
  };
  EXPECT_EQ(Infer(groups(R"("num_bits": 4, "type": "int")")),
            (Inferred{"int4_wo", "int4_wo", "-", "-"}));
  EXPECT_EQ(Infer(groups(R"("num_bits": 4, "type": "int")", R"("re:.*self_attn.*")")),
            (Inferred{"-", "int4_wo", "-", "-"}));
  EXPECT_EQ(Infer(groups(R"("num_bits": 8, "type": "int")", R"("mlp.experts")")),
            (Inferred{"int8_wo", "-", "-", "-"}));
  EXPECT_EQ(Infer(groups(R"("num_bits": 8, "type": "float", "strategy": "block")")),
            (Inferred{"fp8_block", "fp8_block", "-", "-"}));
  EXPECT_EQ(Infer(groups(R"("num_bits": 4.0, "type": "int")")), (Inferred{"-", "-", "-", "-"}));
}

TEST(Quantisation, AFormatWithoutAModeIsAnError) {
  const ModelConfig m = testing::Parse(testing::Qwen3Dense(Config(
      R"("quant_method": "compressed-tensors",
         "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int"}}})")));
  ASSERT_TRUE(m.quant_error);
  EXPECT_EQ(m.quant_error->kind, ErrorKind::kModelConfig);
}

TEST(Quantisation, UnknownAlgorithmsFailTheBuild) {
  for (const char* members : {R"("quant_method": "awq")", R"("quant_method": "gptq")",
                              R"("quant_method": "fp8", "kv_cache_dtype": "int4")"}) {
    const ModelConfig m = testing::Parse(testing::Qwen3Dense(Config(members)));
    BuildOptions options;
    options.quant = {.gemm = GemmQuant::kFp8,
                     .moe = MoeQuant::kFp8,
                     .kv = KvQuant::kFp8,
                     .fmha = FmhaQuant::kFp8};  // even when every mode is given
    const auto plan = BuildModelPlan(m, options);
    ASSERT_FALSE(plan) << members;
    EXPECT_EQ(plan.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(Quantisation, MixedPrecisionSplitsDenseAndRoutedLayers) {
  EXPECT_EQ(Infer("", R"({"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
              "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
              "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4"}}}})"),
            (Inferred{"fp8_static", "w4a16_nvfp4", "-", "-"}));
  EXPECT_EQ(Infer("", R"({"quantization": {"quant_algo": "mixed-precision", "quantized_layers": {
              "model.layers.0.self_attn.q_proj": {"quant_algo": "MXFP8"},
              "model.layers.0.mlp.shared_experts.up_proj": {"quant_algo": "NVFP4"},
              "model.layers.0.mlp.experts": "fp4"}}})"),
            (Inferred{"fp8_block", "nvfp4", "-", "-"}));
}

TEST(Quantisation, BackendsDemoteInferredFp8Attention) {
  const ModelConfig m = testing::Parse(testing::Qwen3Dense(testing::kFp8Block));
  const auto fmha = [&](Backend backend, QuantOverrides given = {}) {
    return ResolveQuantModes(given, m.inferred_quant, m.architecture, backend).fmha;
  };
  EXPECT_EQ(fmha(Backend::kTrtllm), FmhaQuant::kFp8);
  EXPECT_EQ(fmha(Backend::kSglang), FmhaQuant::kFp8);
  EXPECT_EQ(fmha(Backend::kVllm), FmhaQuant::kBfloat16);
  EXPECT_EQ(fmha(Backend::kVllm, {.fmha = FmhaQuant::kFp8}), FmhaQuant::kFp8);
}

TEST(Quantisation, ReadsExcludedProjections) {
  EXPECT_EQ(ExcludedProjections({"model.layers.0.self_attn*"}),
            (ProjectionExclusions{true, true, true, true}));
  EXPECT_EQ(ExcludedProjections({"*self_attn.q_a_proj", "*.kv_b_proj", "lm_head"}),
            (ProjectionExclusions{true, true, false, false}));
  EXPECT_EQ(ExcludedProjections({"model.indexer", "x.o_proj"}),
            (ProjectionExclusions{false, false, true, true}));
  EXPECT_EQ(ExcludedProjections({"lm_head"}), ProjectionExclusions{});
}

}  // namespace
}  // namespace infercast
