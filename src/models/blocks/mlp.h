// The feed-forward half of a dense decoder layer, and shared experts, which have the same shape.
#pragma once

#include <string>
#include <string_view>

#include "models/op_list.h"

namespace infercast {

// up (and gate) projection -> activation -> down projection, widths of this GPU.
struct MlpBlock {
  std::string prefix;
  double layers = 0;
  std::string_view up = "gate_ffn1_gemm";
  std::string_view act = "act_gate";
  std::string_view down = "ffn2_gemm";
  std::int64_t up_width = 0;    // gate and up together
  std::int64_t down_input = 0;  // after the activation
  GemmQuant quant{};
  bool low_precision_down = true;
  std::int64_t scale_num_tokens = 1;
};

void AddMlpBlock(OpList& ops, const MlpBlock& block);

// Widths of a gated feed-forward of `inter` over `shards` GPUs: 2 * inter // shards and
// inter // shards (each rounded down on its own).
MlpBlock GatedMlp(double layers, std::int64_t inter, std::int64_t shards, GemmQuant quant);

}  // namespace infercast
