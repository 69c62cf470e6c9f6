// Gemma-4: sliding and global layers with head geometries of their own; every layer has a dense
// feed-forward and, in the MoE variants, routed experts beside it.
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <memory>
#include <utility>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/families.h"
#include "models/hybrid_layers.h"

namespace infercast {

namespace {

struct GemmaRecord : FamilyRecord {
  std::vector<bool> global_attention;
  std::int64_t sliding_kv_heads = 0;
  std::int64_t sliding_head_dim = 0;
  std::int64_t global_kv_heads = 0;
  std::int64_t global_head_dim = 0;
  std::int64_t window = 0;
  bool k_is_v = false;  // global layers keep one tensor for keys and values

  std::int64_t Layers(bool global) const {
    std::int64_t count = 0;
    for (const bool g : global_attention) count += g == global ? 1 : 0;
    return count;
  }
};

Status Parse(ModelConfig& m) {
  const JsonView c = m.decoder();
  auto record = std::make_shared<GemmaRecord>();
  IC_ASSIGN(record->global_attention, ReadGlobalLayers(c["layer_types"], m.layers));
  IC_ASSIGN(record->sliding_kv_heads, RequireSize(c, "num_key_value_heads"));
  IC_ASSIGN(record->sliding_head_dim, RequireSize(c, "head_dim"));
  IC_ASSIGN(record->global_kv_heads,
            ReadSize(c, "num_global_key_value_heads", record->sliding_kv_heads));
  IC_ASSIGN(record->global_head_dim, ReadSize(c, "global_head_dim", record->sliding_head_dim));
  IC_ASSIGN(record->window, ReadSize(c, "sliding_window"));
  record->k_is_v = c["attention_k_eq_v"].Truthy();
  m.record = std::move(record);
  return {};
}

bool HasExperts(const ModelConfig& m) { return m.topk > 0 && m.num_experts > 0; }

// Modes of the parts; a checkpoint may leave some of them unquantised.
struct PartModes {
  GemmQuant projections;
  GemmQuant mlp;
  MoeQuant experts;
};

PartModes ReadPartModes(const BuildContext& b) {
  PartModes modes{b.quant.gemm, b.quant.gemm, b.quant.moe};
  if (b.gemm_explicit) return modes;
  for (std::string pattern : ExclusionPatterns(b.model->root())) {
    for (char& c : pattern) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (pattern.find("self_attn") != std::string::npos) modes.projections = GemmQuant::kBfloat16;
    if (pattern.find(".mlp") != std::string::npos) {
      modes.mlp = GemmQuant::kBfloat16;
      modes.experts = MoeQuant::kBfloat16;
    }
  }
  return modes;
}

// One kind of layer on one GPU.
struct Kind {
  std::string name;  // "swa" or "global"
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;
  bool k_is_v = false;

  double KvElements() const { return static_cast<double>(kv_heads * head_dim * 2); }
};

Kind Sliding(const BuildContext& b, const GemmaRecord& r) {
  return {.name = "swa",
          .layers = r.Layers(false),
          .kv_heads = (r.sliding_kv_heads + b.tp - 1) / b.tp,
          .head_dim = r.sliding_head_dim,
          .window = r.window};
}

Kind Global(const BuildContext& b, const GemmaRecord& r) {
  return {.name = "global",
          .layers = r.Layers(true),
          .kv_heads = (r.global_kv_heads + b.tp - 1) / b.tp,
          .head_dim = r.global_head_dim,
          .window = 0,
          .k_is_v = r.k_is_v};
}

void AddLayers(OpList& ops, const Kind& kind, const PartModes& modes) {
  const BuildContext& b = ops.build();
  const ModelConfig& m = *b.model;
  const double c = static_cast<double>(kind.layers);
  const std::string prefix = kind.name + "_";
  AttentionBlock attention;
  attention.prefix = prefix;
  attention.layers = c;
  attention.norm = "attn_norm";
  attention.qkv_width =
      m.heads * kind.head_dim / b.tp + kind.kv_heads * kind.head_dim * (kind.k_is_v ? 1 : 2);
  attention.proj_input = m.heads * kind.head_dim / b.tp;
  attention.heads = {.heads = m.heads / b.tp,
                     .kv_heads = kind.kv_heads,
                     .head_dim = kind.head_dim,
                     .window = kind.window};
  attention.quant = modes.projections;
  AddAttentionBlock(ops, attention);
  ops.Norm(prefix + "ffn_norm", c);
  const std::int64_t inter = m.inter_size / b.tp;
  AddMlpBlock(ops, {.prefix = prefix,
                    .layers = c,
                    .up = "shared_mlp_gate_up_gemm",
                    .act = "shared_mlp_act",
                    .down = "shared_mlp_down_gemm",
                    .up_width = 2 * inter,
                    .down_input = inter,
                    .quant = modes.mlp});
  if (!HasExperts(m)) return;
  MoeSettings moe;
  moe.prefix = prefix;
  moe.layers = c;
  moe.quant = modes.experts;
  moe.distribution = b.Distribution("1.01");
  moe.attn_cp_size = b.cp;
  moe.dispatch_is_context = ops.is_context() || b.cp == 1;
  constexpr std::int64_t kRouterFrom = 128;  // a small router hides behind the exchange
  if (m.num_experts >= kRouterFrom) AddRouter(ops, moe);
  AddRoutedExperts(ops, moe);
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const Kind& sliding,
                                     const Kind& global) {
  const ModelConfig& m = *b.model;
  const PartModes modes = ReadPartModes(b);
  OpList ops(b, phase, b.cp);
  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  for (const Kind* kind : {&sliding, &global}) {
    if (kind->layers > 0) AddLayers(ops, *kind, modes);
  }
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.PipelineHandOver();
  if (b.cp > 1 && phase == Phase::kContext) {
    for (const Kind* kind : {&sliding, &global}) {
      if (kind->layers == 0) continue;
      AddKvGather(ops, "cp_all_gather_" + kind->name, static_cast<double>(kind->layers),
                  kind->KvElements() * b.KvBytesPerElement() / b.CommBytesPerElement());
    }
  }
  return std::move(ops).Take();
}

Result<FamilyPlan> Build(const BuildContext& b) {
  const auto& record = b.model->RecordAs<GemmaRecord>();
  if (HasExperts(*b.model)) {
    IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  } else if (b.moe_ep != 1) {
    return Fail(
        ErrorKind::kInvalidArgument,
        fmt::format("{} has no experts: moe_ep must be 1, got {}", b.model->name, b.moe_ep));
  }
  if (static_cast<std::int64_t>(record.global_attention.size()) != b.L) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} has {} layers but layer_types names {}", b.model->name, b.L,
                            record.global_attention.size()));
  }
  const Kind sliding = Sliding(b, record);
  const Kind global = Global(b, record);
  FamilyPlan plan;
  plan.kv.elements_per_token = static_cast<double>(sliding.layers) * sliding.KvElements() +
                               static_cast<double>(global.layers) * global.KvElements();
  const double bytes = b.KvBytesPerElement();
  plan.kv.terms = {{.bytes = bytes * static_cast<double>(sliding.layers) * sliding.KvElements(),
                    .window = sliding.window},
                   {.bytes = bytes * static_cast<double>(global.layers) * global.KvElements()}};
  plan.kv.inverse = KvInverse::kSearch;
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, sliding, global));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, sliding, global));
  return plan;
}

constexpr std::array<Architecture, 1> kArchitectures = {{{"Gemma4ForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kGemma4MixFamily = {.id = ModelFamily::kGemma4Mix,
                                      .architectures = kArchitectures,
                                      .is_moe = nullptr,
                                      .is_moe_always = true,
                                      .context_parallel = true,
                                      .parse = Parse,
                                      .build = Build};

}  // namespace infercast
