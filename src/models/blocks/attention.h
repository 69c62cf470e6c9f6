// The attention half of a decoder layer with grouped-query heads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/op_list.h"

namespace infercast {

// norm -> qkv projection -> attention -> [KV gather] -> [head gate] -> output projection.
struct AttentionBlock {
  std::string prefix;  // in front of the block's names, e.g. "global_"
  double layers = 0;
  std::string_view norm = "add_norm_1";
  std::int64_t qkv_width = 0;  // of this GPU
  std::int64_t proj_input = 0;
  AttentionHeads heads;
  GemmQuant quant{};
  bool low_precision_proj = true;
  bool head_gate = false;  // one gate a head scales the attention output
  // Layers that run full attention when some of them are listed apart (absent: all).
  std::optional<double> attention_layers;
  // 16-bit KV elements a token that context-parallel ranks exchange (absent: none).
  std::optional<double> kv_gather_elements;
};

void AddAttentionBlock(OpList& ops, const AttentionBlock& block);

// qkv width of this GPU: query heads sharded exactly, KV heads rounded up.
std::int64_t QkvWidth(std::int64_t heads, std::int64_t head_dim, std::int64_t kv_heads_per_gpu,
                      std::int64_t tp);

// Exchange of the KV of a context-parallel group.
void AddKvGather(OpList& ops, std::string_view name, double layers, double elements);

}  // namespace infercast
