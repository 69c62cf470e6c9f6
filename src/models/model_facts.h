// What the layers above need to know about a built model besides its operators: its family, its
// sizes, and how its KV cache grows. Filled by the family builders; read by memory and serving.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/modes.h"

namespace infercast {

enum class ModelFamily : std::uint8_t {
  kLlama,
  kQwen3Vl,
  kGpt,
  kNemotronNas,
  kMoe,
  kQwen3VlMoe,
  kHybridMoe,
  kStep3p7,
  kGemma4Mix,
  kMinimaxM3,
  kDeepseek,
  kKimiK25,
  kDeepseekV32,
  kDeepseekV4,
  kKimiK3,
  kQwen35,
  kNemotronH,
};
template <>
struct EnumNames<ModelFamily> {
  static constexpr std::string_view kType = "model family";
  static constexpr std::array<std::string_view, 17> kNames = {
      "LLAMA",       "QWEN3VL",    "GPT",       "NEMOTRONNAS", "MOE",      "QWEN3VL_MOE",
      "HYBRIDMOE",   "STEP3P7",    "GEMMA4MIX", "MINIMAXM3",   "DEEPSEEK", "KIMIK25",
      "DEEPSEEKV32", "DEEPSEEKV4", "KIMIK3",    "QWEN35",      "NEMOTRONH"};
};

// One part of the KV cache of one sequence on one GPU: bytes * min(S, window) where window > 0,
// else bytes * floor(S / stride). Layers that behave alike share a term.
struct KvTerm {
  double bytes = 0;         // per cached position, all layers of the term
  std::int64_t window = 0;  // positions kept; 0 = all
  std::int64_t stride = 1;  // one cached position per `stride` tokens (compressed attention)
};

// How the largest sequence for a byte budget is found (the three differ only in rounding and in
// what they do with windows).
enum class KvInverse : std::uint8_t { kLinear, kAffine, kSearch };

// KV bytes of one sequence on one GPU (not divided by pipeline, context or data parallelism).
struct KvLayout {
  std::vector<KvTerm> terms;
  double state_bytes = 0;         // per sequence, independent of length (recurrent state, buffers)
  double elements_per_token = 0;  // summed over layers
  KvInverse inverse = KvInverse::kLinear;
  std::int64_t context_length = 0;  // the model's limit; 0 = unknown

  double Bytes(std::int64_t seq) const;
  // Largest sequence length whose KV fits in `budget` bytes; 0 when none does.
  std::int64_t Capacity(double budget) const;
};

struct ModelFacts {
  std::string architecture;
  ModelFamily family = ModelFamily::kLlama;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t hidden_size = 0;  // residual width
  std::int64_t num_experts = 0;
  std::int64_t topk = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;
  bool is_moe = false;
  KvLayout kv;
};

}  // namespace infercast
