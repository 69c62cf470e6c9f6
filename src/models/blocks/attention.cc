// Grouped-query attention block.
#include "models/blocks/attention.h"

#include "models/family.h"

namespace infercast {

void AddKvGather(OpList& ops, std::string_view name, double layers, double elements) {
  const BuildContext& b = ops.build();
  ops.Collective(name, layers, "all_gather", elements, b.cp, b.quant.comm);
}

void AddAttentionBlock(OpList& ops, const AttentionBlock& a) {
  const auto name = [&](std::string_view part) { return a.prefix + std::string(part); };
  const std::int64_t h = ops.build().model->hidden_size;
  ops.Norm(name(a.norm), a.layers);
  ops.Gemm(name("qkv_gemm"), a.layers, a.qkv_width, h, a.quant);
  ops.Attention(a.attention_layers.value_or(a.layers), a.heads);
  if (a.kv_gather_elements) AddKvGather(ops, "cp_all_gather", a.layers, *a.kv_gather_elements);
  if (a.head_gate) {
    ops.Gemm(name("attn_gate_gemm"), a.layers, a.heads.heads, h, a.quant);
    ops.Elementwise(name("attn_gate"), a.layers, a.proj_input + a.heads.heads, a.proj_input);
  }
  ops.Gemm(name("proj_gemm"), a.layers, h, a.proj_input, a.quant,
           {.low_precision_input = a.low_precision_proj});
}

std::int64_t QkvWidth(std::int64_t heads, std::int64_t head_dim, std::int64_t kv_heads_per_gpu,
                      std::int64_t tp) {
  return heads * head_dim / tp + head_dim * kv_heads_per_gpu * 2;
}

}  // namespace infercast
