// Operator lists of hybrid decoders: one group of operators for each kind of layer that occurs.
#include "models/hybrid_layers.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

// One kind of attention on one GPU.
struct Kind {
  std::string name;  // "global" or "swa"
  std::int64_t qkv_width = 0;
  std::int64_t proj_input = 0;
  AttentionHeads heads;
  std::int64_t kv_width = 0;  // K and V elements a token
  std::int64_t layers = 0;
};

Kind DescribeKind(const BuildContext& b, const HybridLayers& l, bool global) {
  const ModelConfig& m = *b.model;
  const auto or_model = [](std::int64_t own, std::int64_t model) { return own != 0 ? own : model; };
  const std::int64_t n = global ? m.heads : or_model(l.sliding_heads, m.heads);
  const std::int64_t nkv = global ? m.kv_heads : or_model(l.sliding_kv_heads, m.kv_heads);
  const std::int64_t d = global ? m.head_dim : or_model(l.sliding_head_dim, m.head_dim);
  const std::int64_t v = or_model(global ? l.global_v_dim : l.sliding_v_dim, m.head_dim);
  const std::int64_t kv_heads = (nkv + b.tp - 1) / b.tp;
  Kind kind;
  kind.name = global ? "global" : "swa";
  kind.kv_width = kv_heads * (d + v);
  kind.qkv_width = n * d / b.tp + kind.kv_width;
  kind.proj_input = n * v / b.tp;
  kind.heads = {.heads = n / b.tp,
                .kv_heads = kv_heads,
                .head_dim = d,
                .window = global ? 0 : l.window,
                .qk_norm = m.qk_norm};
  kind.layers = global ? l.GlobalLayers() : l.SlidingLayers();
  return kind;
}

void AddGroup(OpList& ops, const Kind& kind, bool routed, std::int64_t count,
              const HybridLayers& l) {
  const BuildContext& b = ops.build();
  const double c = static_cast<double>(count);
  AttentionBlock attention;
  attention.prefix = kind.name + (routed ? "_" : "_dense_");
  attention.layers = c;
  attention.norm = "attn_norm";
  attention.qkv_width = kind.qkv_width;
  attention.proj_input = kind.proj_input;
  attention.heads = kind.heads;
  attention.quant = b.quant.gemm;
  attention.head_gate = l.head_gate;
  AddAttentionBlock(ops, attention);
  if (routed) {
    ops.Norm(attention.prefix + "moe_norm", c);
    MoeSettings moe;
    moe.prefix = attention.prefix;
    moe.layers = c;
    moe.quant = b.quant.moe;
    moe.dispatch_quant = MoeQuant::kBfloat16;  // tokens travel unquantised
    moe.distribution = b.Distribution("1.01");
    moe.attn_cp_size = b.cp;
    moe.dispatch_is_context = ops.is_context() || b.cp == 1;
    AddMoeBlock(ops, moe);
  } else {
    ops.Norm(attention.prefix + "ffn_norm", c);
    const std::int64_t inter = (l.dense_inter != 0 ? l.dense_inter : b.model->inter_size) / b.tp;
    AddMlpBlock(ops, {.prefix = attention.prefix,
                      .layers = c,
                      .up = "gate_up_gemm",
                      .act = "act",
                      .down = "down_gemm",
                      .up_width = 2 * inter,
                      .down_input = inter,
                      .quant = b.quant.gemm});
  }
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const HybridLayers& l,
                                     std::int64_t shared_inter) {
  const ModelConfig& m = *b.model;
  const Kind global = DescribeKind(b, l, true);
  const Kind sliding = DescribeKind(b, l, false);
  OpList ops(b, phase, b.cp);

  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  const std::array<std::pair<const Kind*, bool>, 4> groups = {
      {{&global, true}, {&sliding, true}, {&sliding, false}, {&global, false}}};
  for (const auto& [kind, routed] : groups) {
    const std::int64_t count = l.Count(kind == &global, routed);
    if (count > 0) AddGroup(ops, *kind, routed, count, l);
  }
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.PipelineHandOver();
  if (b.cp > 1 && phase == Phase::kContext) {
    const double bytes = b.KvBytesPerElement();
    for (const Kind* kind : {&global, &sliding}) {
      if (kind->layers == 0) continue;
      AddKvGather(ops, "cp_all_gather_" + kind->name, static_cast<double>(kind->layers),
                  static_cast<double>(kind->kv_width) * bytes / b.CommBytesPerElement());
    }
  }
  const std::int64_t moe_layers = l.Count(true, true) + l.Count(false, true);
  if (shared_inter > 0 && moe_layers > 0) {
    const std::int64_t inter = shared_inter / b.tp;
    AddMlpBlock(ops, {.prefix = "shared_expert_dense_",
                      .layers = static_cast<double>(moe_layers),
                      .up = "gate_up_gemm",
                      .act = "act",
                      .down = "down_gemm",
                      .up_width = 2 * inter,
                      .down_input = inter,
                      .quant = b.quant.gemm});
  }
  return std::move(ops).Take();
}

Status CheckPatterns(const BuildContext& b, const HybridLayers& l) {
  const auto layers = static_cast<std::size_t>(b.L);
  if (l.global_attention.size() != layers || l.routed.size() != layers) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} has {} layers but its patterns name {} (attention) and {} "
                            "(experts)",
                            b.model->name, b.L, l.global_attention.size(), l.routed.size()));
  }
  return {};
}

}  // namespace

std::int64_t HybridLayers::Count(bool global, bool moe) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < global_attention.size() && i < routed.size(); ++i) {
    count += global_attention[i] == global && routed[i] == moe ? 1 : 0;
  }
  return count;
}

Result<std::vector<bool>> ReadLayerFlags(JsonView list, std::int64_t layers,
                                         std::string_view what) {
  if (static_cast<std::int64_t>(list.size()) != layers) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} has {} entries for {} layers", what, list.size(), layers));
  }
  std::vector<bool> flags;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::optional<double> flag = list.Item(i).AsBool()
                                           ? std::optional(list.Item(i).Truthy() ? 1.0 : 0.0)
                                           : list.Item(i).AsNumber();
    if (flag != 0.0 && flag != 1.0) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{}[{}] must be 0 or 1, got {}", what, i, list.Item(i).Display()));
    }
    flags.push_back(*flag == 1.0);
  }
  return flags;
}

Result<std::vector<bool>> ReadGlobalLayers(JsonView list, std::int64_t layers,
                                           std::int64_t drafts) {
  std::int64_t length = static_cast<std::int64_t>(list.size());
  if (drafts > 0 && length == layers + drafts) length = layers;
  if (length != layers) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("layer_types has {} entries for {} layers", length, layers));
  }
  std::vector<bool> global;
  for (std::int64_t i = 0; i < length; ++i) {
    const JsonView type = list.Item(static_cast<std::size_t>(i));
    const std::string_view name = type.AsText().value_or("");
    if (name != "full_attention" && name != "sliding_attention") {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("layer_types[{}] must be full_attention or sliding_attention, got {}",
                              i, type.Display()));
    }
    global.push_back(name == "full_attention");
  }
  return global;
}

Result<FamilyPlan> BuildHybridLayers(const BuildContext& b, const HybridLayers& layers,
                                     std::int64_t shared_inter) {
  IC_RETURN_IF_ERROR(CheckNoLargeExpertParallelism(b));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  IC_RETURN_IF_ERROR(CheckExpertBlockAlignment(b));
  IC_RETURN_IF_ERROR(CheckPatterns(b, layers));
  FamilyPlan plan;
  plan.kv = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, layers, shared_inter));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, layers, shared_inter));
  return plan;
}

}  // namespace infercast
