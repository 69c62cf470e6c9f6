// Checkpoints for tests, written from the published sizes of the models.
#include "models/model_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace infercast::testing {

std::string Qwen3Dense(std::string_view more) {
  return fmt::format(R"({{"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 64,
    "hidden_size": 5120, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 25600, "vocab_size": 151936, "max_position_embeddings": 40960{}}})",
                     more);
}

std::string Qwen3Moe(std::string_view more) {
  return fmt::format(R"({{"architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 94,
    "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128,
    "num_experts_per_tok": 8, "vocab_size": 151936, "max_position_embeddings": 40960{}}})",
                     more);
}

std::string GptOss() {
  return R"({"architectures": ["GptOssForCausalLM"], "num_hidden_layers": 36, "hidden_size": 2880,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
    "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088,
    "max_position_embeddings": 131072, "quantization_config": {"quant_method": "mxfp4"}})";
}

std::string MiMoV2(std::string_view more) {
  std::string attention;
  std::string experts;
  for (int i = 0; i < 48; ++i) {
    attention += fmt::format("{}{}", i == 0 ? "" : ",", i % 6 == 0 || i == 47 ? 0 : 1);
    experts += fmt::format("{}{}", i == 0 ? "" : ",", i == 0 ? 0 : 1);
  }
  return fmt::format(R"({{"architectures": ["MiMoV2FlashForCausalLM"], "num_hidden_layers": 48,
    "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192,
    "v_head_dim": 128, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "sliding_window_size": 128, "intermediate_size": 16384, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "vocab_size": 152576,
    "max_position_embeddings": 262144, "hybrid_layer_pattern": [{}], "moe_layer_freq": [{}]{}}})",
                     attention, experts, more);
}

std::string Qwen3Vl() {
  return R"({"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": {
    "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "max_position_embeddings": 262144}, "vision_config": {"depth": 27, "hidden_size": 1152,
    "num_heads": 16, "intermediate_size": 4304, "patch_size": 16, "temporal_patch_size": 2,
    "spatial_merge_size": 2, "out_hidden_size": 4096, "deepstack_visual_indexes": [8, 16, 24]}})";
}

ModelConfig Parse(const std::string& config, const std::string& hf_quant) {
  auto model = ParseCheckpoint("test/model", config, hf_quant);
  if (!model) {
    ADD_FAILURE() << model.error().message;
    return {};
  }
  return *std::move(model);
}

ModelPlan Build(const ModelConfig& model, const BuildOptions& options) {
  auto plan = BuildModelPlan(model, options);
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return {};
  }
  return *std::move(plan);
}

BuildOptions Options(Backend backend, ParallelLayout layout) {
  BuildOptions options;
  options.backend = backend;
  options.layout = layout;
  return options;
}

std::vector<std::string> Names(const std::vector<Operator>& ops) {
  std::vector<std::string> names;
  for (const Operator& op : ops) names.push_back(op.name());
  return names;
}

double SumOfScales(const std::vector<Operator>& ops) {
  double sum = 0;
  for (const Operator& op : ops) {
    std::visit(
        [&](const auto& kind) {
          if constexpr (requires { kind.scale_factor; }) sum += kind.scale_factor;
          if constexpr (requires { kind.group_a; }) {
            for (const Operator& child : kind.group_a) sum += SumOfScales({child});
            for (const Operator& child : kind.group_b) sum += SumOfScales({child});
          }
        },
        op.kind);
  }
  return sum;
}

}  // namespace infercast::testing
