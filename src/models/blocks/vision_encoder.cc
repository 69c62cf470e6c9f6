// Vision transformer: full attention over an image's patches, then a projector that merges patches.
#include "models/blocks/vision_encoder.h"

#include <fmt/format.h>

#include <utility>

namespace infercast {

Result<std::optional<VisionFacts>> ReadVisionConfig(JsonView root) {
  const JsonView v = root["vision_config"];
  if (!v.Truthy()) return std::optional<VisionFacts>();
  if (!v.is_object()) return Fail(ErrorKind::kModelConfig, "vision_config is not a JSON object");
  VisionFacts f;
  IC_ASSIGN(f.layers, RequireSize(v, "depth"));
  IC_ASSIGN(f.hidden_size, RequireSize(v, "hidden_size"));
  IC_ASSIGN(f.heads, RequireSize(v, "num_heads"));
  IC_ASSIGN(f.inter_size, RequireSize(v, "intermediate_size"));
  IC_ASSIGN(f.patch_size, RequireSize(v, "patch_size"));
  IC_ASSIGN(f.temporal_patch_size, RequireSize(v, "temporal_patch_size"));
  IC_ASSIGN(f.spatial_merge_size, RequireSize(v, "spatial_merge_size"));
  IC_ASSIGN(f.out_hidden_size, RequireSize(v, "out_hidden_size"));
  if (f.heads == 0) return Fail(ErrorKind::kModelConfig, "vision_config.num_heads is 0");
  constexpr std::int64_t kWidestMerge = 1024;
  if (f.spatial_merge_size > kWidestMerge) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("vision_config.spatial_merge_size must be at most {}, got {}",
                            kWidestMerge, f.spatial_merge_size));
  }
  // One projector for the last layer and one for each layer whose features are stacked in.
  f.projector_instances = 1 + static_cast<std::int64_t>(v["deepstack_visual_indexes"].size());
  return std::optional(f);
}

Result<std::vector<Operator>> BuildVisionEncoder(const VisionFacts& v, std::int64_t tp,
                                                 bool data_parallel) {
  const std::int64_t shards = data_parallel ? 1 : tp;
  if (shards > 1 && (v.heads % shards != 0 || v.inter_size % shards != 0)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tp = {} does not divide the vision encoder's {} heads and width {}",
                            tp, v.heads, v.inter_size));
  }
  // The encoder has sizes of its own; the list only needs its width and group.
  ModelConfig tower;
  tower.name = "vision encoder";
  tower.hidden_size = v.hidden_size;
  BuildContext b;
  b.model = &tower;
  b.tp = shards;
  OpList ops(b, Phase::kContext);
  ops.set_prefix("encoder");

  const double D = static_cast<double>(v.layers);
  const std::int64_t hv = v.hidden_size;
  const std::int64_t head = hv / v.heads;
  const std::int64_t inter = v.inter_size / shards;
  constexpr GemmQuant kQuant = GemmQuant::kBfloat16;
  constexpr GemmExtras kLow{.low_precision_input = true};

  ops.Norm("add_norm_1", D);
  ops.Gemm("qkv_gemm", D, 3 * v.heads * head / shards, hv, kQuant);
  ops.Add(EncoderAttention{.name = ops.Name("attention"),
                           .scale_factor = D,
                           .n = ops.Wire(v.heads / shards),
                           .head_size = ops.Wire(head),
                           .fmha_quant_mode = FmhaQuant::kBfloat16,
                           .partial_rotary_factor = 0.0});
  ops.Gemm("proj_gemm", D, hv, v.heads * head / shards, kQuant, kLow);
  ops.AllReduce("ar_1", D, hv);
  ops.Norm("add_norm_2", D);
  ops.Gemm("ffn1_gemm", D, inter, hv, kQuant);
  ops.Elementwise("act", D, inter, inter);
  ops.Gemm("ffn2_gemm", D, hv, inter, kQuant, kLow);
  ops.AllReduce("ar_2", D, hv);
  // Half of each head is rotated: queries and keys, read and written.
  const std::int64_t rotated = 6 * (v.heads / shards) * head;
  ops.Elementwise("rope_apply", D, rotated, rotated);

  const std::int64_t merged = v.spatial_merge_size * v.spatial_merge_size * hv;
  const double u = static_cast<double>(v.projector_instances);
  ops.Gemm("projector_fc0_gemm", u, merged / shards, merged, kQuant);
  ops.Elementwise("projector_fc0_act", u, merged / shards, merged / shards);
  ops.Gemm("projector_fc1_gemm", u, v.out_hidden_size, merged / shards, kQuant);
  ops.AllReduce("projector_ar", u, v.out_hidden_size);
  if (data_parallel && tp > 1) {
    ops.Collective("dp_all_gather", 1, "all_gather",
                   static_cast<double>(v.out_hidden_size * v.projector_instances * tp), tp,
                   CommQuant::kHalf);
  }
  return std::move(ops).Take();
}

}  // namespace infercast
