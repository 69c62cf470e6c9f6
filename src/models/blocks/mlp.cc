// Dense feed-forward block.
#include "models/blocks/mlp.h"

#include "models/family.h"

namespace infercast {

void AddMlpBlock(OpList& ops, const MlpBlock& m) {
  const auto name = [&](std::string_view part) { return m.prefix + std::string(part); };
  const std::int64_t h = ops.build().model->hidden_size;
  ops.Gemm(name(m.up), m.layers, m.up_width, h, m.quant, {.scale_num_tokens = m.scale_num_tokens});
  ops.Elementwise(name(m.act), m.layers, m.up_width, m.down_input, m.scale_num_tokens);
  ops.Gemm(name(m.down), m.layers, h, m.down_input, m.quant,
           {.low_precision_input = m.low_precision_down, .scale_num_tokens = m.scale_num_tokens});
}

MlpBlock GatedMlp(double layers, std::int64_t inter, std::int64_t shards, GemmQuant quant) {
  MlpBlock block;
  block.layers = layers;
  block.up_width = 2 * inter / shards;
  block.down_input = inter / shards;
  block.quant = quant;
  return block;
}

}  // namespace infercast
