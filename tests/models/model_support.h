// Small checkpoints of well-known shapes, as text, and shortcuts for building them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/checkpoint.h"
#include "models/model_plan.h"

namespace infercast::testing {

// config.json of a dense Qwen3 with 64 layers; `more` is appended as further members.
std::string Qwen3Dense(std::string_view more = "");
// Qwen3-MoE: 94 layers, 128 experts of width 1536.
std::string Qwen3Moe(std::string_view more = "");
std::string GptOss();
// MiMo-V2: 48 layers, 39 of them with global attention, the first one dense.
std::string MiMoV2(std::string_view more = "");
// Qwen3-VL-8B.
std::string Qwen3Vl();

// "quantization_config" of block-scaled fp8, as a further member.
inline constexpr std::string_view kFp8Block =
    R"(, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
        "weight_block_size": [128, 128]})";

// Parses or fails the test.
ModelConfig Parse(const std::string& config, const std::string& hf_quant = "");
// Builds or fails the test.
ModelPlan Build(const ModelConfig& model, const BuildOptions& options);

BuildOptions Options(Backend backend, ParallelLayout layout);

std::vector<std::string> Names(const std::vector<Operator>& ops);

template <typename Kind>
const Kind& Find(const std::vector<Operator>& ops, std::string_view name) {
  for (const Operator& op : ops) {
    if (const auto* found = std::get_if<Kind>(&op.kind); found != nullptr && found->name == name) {
      return *found;
    }
  }
  throw std::out_of_range("no operator " + std::string(name));
}

// Sum of all scale factors, overlaps included, from left to right.
double SumOfScales(const std::vector<Operator>& ops);

}  // namespace infercast::testing
