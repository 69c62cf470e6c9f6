// Gated delta-net hybrids (Qwen3.5 and 3.6, dense and with experts): most layers hold a recurrent
// state instead of a KV cache, every few layers attend in full with gated queries.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <utility>

#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

struct Qwen35Record : FamilyRecord {
  std::int64_t linear_layers = 0, full_layers = 0;
  std::int64_t key_heads = 0, key_dim = 0, value_heads = 0, value_dim = 0, conv_kernel = 0;
  std::int64_t shared_inter_size = 0;
  std::string state_dtype = "float32";
};

Result<std::int64_t> Required(JsonView source, std::string_view key) {
  if (!source[key].is_present()) {
    return Fail(ErrorKind::kModelConfig, fmt::format("the configuration lacks '{}'", key));
  }
  return ReadSize(source, key);
}

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<Qwen35Record>();
  const JsonView source = m.decoder();
  const JsonView types = source["layer_types"];
  if (static_cast<std::int64_t>(types.size()) != m.layers) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("layer_types has {} entries for {} layers", types.size(), m.layers));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string_view kind = types.Item(i).AsText().value_or("");
    record->linear_layers += kind == "linear_attention" ? 1 : 0;
    record->full_layers += kind == "full_attention" ? 1 : 0;
  }
  IC_ASSIGN(record->key_heads, Required(source, "linear_num_key_heads"));
  IC_ASSIGN(record->key_dim, Required(source, "linear_key_head_dim"));
  IC_ASSIGN(record->value_heads, Required(source, "linear_num_value_heads"));
  IC_ASSIGN(record->value_dim, Required(source, "linear_value_head_dim"));
  IC_ASSIGN(record->conv_kernel, Required(source, "linear_conv_kernel_dim"));
  IC_ASSIGN(record->shared_inter_size, ReadSize(source, "shared_expert_intermediate_size"));
  JsonView dtype = source["mamba_ssm_dtype"];
  if (!dtype.exists()) dtype = m.root()["mamba_ssm_dtype"];
  const std::string_view name = dtype.AsText().value_or("");
  if (name == "bfloat16" || name == "float16") record->state_dtype = name;
  m.record = std::move(record);
  return {};
}

// Checkpoints quantise projections, feed-forward and shared experts apart.
struct GemmModes {
  GemmQuant projection;
  GemmQuant ffn;
  GemmQuant shared;
};

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<GemmQuant> ModeOfAlgorithm(std::string_view algorithm) {
  if (algorithm == "fp8") return GemmQuant::kFp8Static;
  if (algorithm == "mxfp8") return GemmQuant::kFp8;
  if (algorithm == "nvfp4") return GemmQuant::kNvfp4;
  if (algorithm == "w4a16_nvfp4") return GemmQuant::kW4a16Nvfp4;
  return std::nullopt;
}

GemmModes ResolveGemmModes(const BuildContext& b) {
  GemmModes modes{b.quant.gemm, b.quant.gemm, b.quant.gemm};
  if (b.gemm_explicit) return modes;
  const JsonView root = b.model->root();
  bool projection = false;
  bool ffn = false;
  bool shared = false;
  for (const JsonView list : {root["hf_quant_config"]["quantization"]["quantized_layers"],
                              root["quantization_config"]["quantized_layers"]}) {
    if (!list.is_object()) continue;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::optional<GemmQuant> mode = ModeOfAlgorithm(LayerAlgorithm(list.Item(i)));
      if (!mode) continue;
      const std::string target = Lower(list.Key(i));
      if (Has(target, ".linear_attn.") || Has(target, ".self_attn.")) {
        modes.projection = *mode;
        projection = true;
      } else if (Has(target, "shared_expert")) {
        modes.shared = *mode;
        shared = true;
      } else if (Has(target, ".mlp.") && !IsRoutedExpertTarget(target)) {
        modes.ffn = *mode;
        ffn = true;
      }
    }
  }
  for (const std::string& raw : ExclusionPatterns(root)) {
    const std::string pattern = Lower(raw);
    if (!projection && (Has(pattern, "linear_attn") || Has(pattern, "self_attn"))) {
      modes.projection = GemmQuant::kBfloat16;
    }
    if (!shared && Has(pattern, "shared_expert")) modes.shared = GemmQuant::kBfloat16;
    if (!ffn && Has(pattern, ".mlp") && !Has(pattern, "shared_expert")) {
      modes.ffn = GemmQuant::kBfloat16;
    }
  }
  return modes;
}

class LayerWriter {
 public:
  LayerWriter(const BuildContext& b, Phase phase)
      : b_(b),
        m_(*b.model),
        r_(b.model->RecordAs<Qwen35Record>()),
        modes_(ResolveGemmModes(b)),
        ops_(b, phase) {
    const bool sglang = b.backend == Backend::kSglang;
    const std::optional<std::string>& kernel = b.options->moe_backend;
    deepep_ = sglang && kernel == "deepep_moe";
    fused_shared_ = sglang && !deepep_;
    // The exchange around the experts carries the attention's sum.
    sum_in_exchange_ = fused_shared_ && m_.num_experts > 0 && b.dp > 1;
    no_pre_exchange_ = sglang && !kernel && b.dp == 1;
  }

  Result<std::vector<Operator>> Write() && {
    const std::int64_t h = m_.hidden_size;
    ops_.Embedding("embedding", 1, m_.vocab / b_.tp, h);
    ops_.AllReduce("embedding_ar", 1);
    if (r_.linear_layers > 0) LinearLayers();
    if (r_.full_layers > 0) FullLayers();
    ops_.Gemm("logits_gemm", 1, m_.vocab / b_.tp, h, GemmQuant::kBfloat16);
    ops_.PipelineHandOver();
    return std::move(ops_).Take();
  }

 private:
  void Kernel(std::string_view name, double layers, std::string_view kernel) {
    ops_.Add(Gdn{.name = ops_.Name(name),
                 .scale_factor = ops_.Scaled(layers),
                 .kernel_source = std::string(kernel),
                 .phase = std::string(PhaseName(ops_.phase())),
                 .d_model = ops_.Wire(m_.hidden_size),
                 .d_conv = ops_.Wire(r_.conv_kernel),
                 .num_k_heads = ops_.Wire(r_.key_heads / b_.tp),
                 .head_k_dim = ops_.Wire(r_.key_dim),
                 .num_v_heads = ops_.Wire(r_.value_heads / b_.tp),
                 .head_v_dim = ops_.Wire(r_.value_dim),
                 .mamba_ssm_dtype = r_.state_dtype});
  }

  void LinearLayers() {
    const double c = static_cast<double>(r_.linear_layers);
    const std::int64_t h = m_.hidden_size;
    const std::int64_t keys = r_.key_heads * r_.key_dim;
    const std::int64_t values = r_.value_heads * r_.value_dim;
    ops_.Norm("gdn_norm", c);
    ops_.Gemm("gdn_in_proj_gemm", c, (2 * keys + 2 * values) / b_.tp, h, modes_.projection);
    ops_.Gemm("gdn_in_proj_ba_gemm", c, 2 * r_.value_heads / b_.tp, h, modes_.projection,
              {.below_grid_sol = true});
    if (ops_.is_context()) {
      Kernel("gdn_conv1d", c, "causal_conv1d_fn");
      Kernel("gdn_scan", c, "chunk_gated_delta_rule");
    } else {
      Kernel("gdn_conv1d", c, "causal_conv1d_update");
      Kernel("gdn_recurrence", c, "fused_sigmoid_gating_delta_rule_update");
    }
    ops_.Gemm("gdn_out_proj_gemm", c, h, values / b_.tp, modes_.projection,
              {.low_precision_input = true});
    if (!sum_in_exchange_) ops_.AllReduce("gdn_ar", c);
    FeedForward("gdn_", c);
  }

  void FullLayers() {
    const double c = static_cast<double>(r_.full_layers);
    const std::int64_t h = m_.hidden_size;
    const std::int64_t d = m_.head_dim;
    const std::int64_t heads = m_.heads / b_.tp;
    const std::int64_t kv_heads = b_.KvHeadsPerGpu();
    ops_.Norm("full_attn_norm", c);
    // The output gate doubles the query part.
    ops_.Gemm("qkv_gemm", c, 2 * heads * d + 2 * kv_heads * d, h, modes_.projection);
    ops_.Attention(
        c, {.heads = heads, .kv_heads = kv_heads, .head_dim = d, .qk_norm = ops_.is_context()});
    ops_.Gemm("proj_gemm", c, h, heads * d, modes_.projection, {.low_precision_input = true});
    if (!sum_in_exchange_) ops_.AllReduce("full_ar", c);
    FeedForward("full_", c);
  }

  void FeedForward(const std::string& x, double c) {
    ops_.Norm(x + "ffn_norm", c);
    if (m_.num_experts == 0) {
      const std::int64_t width = m_.inter_size / b_.tp;
      ops_.Gemm(x + "gate_ffn1_gemm", c, 2 * m_.inter_size / b_.tp, m_.hidden_size, modes_.ffn);
      ops_.Elementwise(x + "act_gate", c, 2 * m_.inter_size / b_.tp, width);
      ops_.Gemm(x + "ffn2_gemm", c, m_.hidden_size, width, modes_.ffn,
                {.low_precision_input = true});
      ops_.AllReduce(x + "ffn_ar", c);
      return;
    }
    const bool context = ops_.is_context();
    MoeSettings moe;
    moe.prefix = x;
    moe.layers = c;
    moe.quant = b_.quant.moe;
    moe.distribution = b_.Distribution("1.2");
    moe.dispatch_is_context = context;
    moe.moe_is_context = context;
    moe.attn_ar_modeled = true;
    moe.dispatch_sms = b_.options->sms;
    moe.moe_backend = b_.options->moe_backend;
    const auto router = [&](OpList& ops) {
      if (m_.num_experts >= 128) AddRouter(ops, moe);
    };
    const auto pre = [&](OpList& ops) {
      if (!no_pre_exchange_) AddDispatch(ops, moe, /*pre=*/true, context ? b_.tp : 1);
    };
    const auto post = [&] {
      if (!deepep_) AddDispatch(ops_, moe, /*pre=*/false);
    };
    const bool has_shared = r_.shared_inter_size > 0;
    const std::int64_t split = deepep_ && context ? b_.tp : 1;  // shared experts' token divisor
    const auto merge = [&] {
      if (!has_shared) return;
      const std::int64_t h = m_.hidden_size;
      ops_.Elementwise(x + "shared_merge", c, fused_shared_ ? 3 * h : 2 * h, h, split);
    };
    if (context) {
      router(ops_);
      pre(ops_);
      AddExperts(ops_, moe);
      post();
      if (has_shared) SharedExpert(ops_, x, c, split);
      merge();
      return;
    }
    const bool sglang = b_.backend == Backend::kSglang;
    if (sglang) pre(ops_);
    OpList routed = ops_.Sub();
    router(routed);
    if (!sglang) pre(routed);
    AddExperts(routed, moe);
    OpList shared = ops_.Sub();
    if (has_shared) SharedExpert(shared, x, c, split);
    if (has_shared && b_.backend != Backend::kTrtllm && !deepep_) {
      ops_.Overlap(x + "moe_overlap", std::move(routed), std::move(shared));
    } else {
      ops_.Append(std::move(routed));
      ops_.Append(std::move(shared));
    }
    merge();
    post();
  }

  void SharedExpert(OpList& ops, const std::string& x, double c, std::int64_t split) {
    const std::int64_t h = m_.hidden_size;
    const std::int64_t width = deepep_ ? 1 : b_.tp;
    const std::int64_t inter = r_.shared_inter_size;
    if (!fused_shared_) {
      ops.Gemm(x + "shared_expert_gate_gemm", c, 1, h, GemmQuant::kBfloat16,
               {.scale_num_tokens = split, .below_grid_sol = true});
    }
    ops.Gemm(x + "shared_gate_up_gemm", c, 2 * inter / width, h, modes_.shared,
             {.scale_num_tokens = split});
    ops.Elementwise(x + "shared_act_gate", c, 2 * inter / width, inter / width, split);
    ops.Gemm(x + "shared_down_gemm", c, h, inter / width, modes_.shared,
             {.low_precision_input = true, .scale_num_tokens = split});
    if (!fused_shared_) ops.Elementwise(x + "shared_expert_gate_mul", c, h, h, split);
  }

  const BuildContext& b_;
  const ModelConfig& m_;
  const Qwen35Record& r_;
  GemmModes modes_;
  OpList ops_;
  bool deepep_ = false;
  bool fused_shared_ = false;
  bool sum_in_exchange_ = false;
  bool no_pre_exchange_ = false;
};

KvLayout Kv(const BuildContext& b) {
  const auto& r = b.model->RecordAs<Qwen35Record>();
  KvLayout kv;
  // Products of more than two sizes may not fit 64 bits; as doubles they are exact where they
  // matter.
  kv.elements_per_token = static_cast<double>(r.full_layers * 2) *
                          static_cast<double>(b.KvHeadsPerGpu() * b.model->head_dim);
  kv.terms.push_back({.bytes = b.KvBytesPerElement() * kv.elements_per_token});
  const double state_width = r.state_dtype == "float32" ? 4 : 2;
  const std::int64_t channels = (2 * r.key_heads * r.key_dim + r.value_heads * r.value_dim) / b.tp;
  const std::int64_t state_rows = r.value_heads / b.tp * r.key_dim;  // whole heads
  const double recurrent =
      static_cast<double>(state_rows) * static_cast<double>(r.value_dim) * state_width;
  const double convolution =
      static_cast<double>(channels) * static_cast<double>((r.conv_kernel - 1) * 2);
  kv.state_bytes = static_cast<double>(r.linear_layers) * (recurrent + convolution);
  kv.inverse = KvInverse::kAffine;
  return kv;
}

Result<FamilyPlan> Build(const BuildContext& b) {
  const auto& r = b.model->RecordAs<Qwen35Record>();
  if (r.key_heads % b.tp != 0 || r.value_heads % b.tp != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the recurrent layers' {} key heads and {} value heads must both be "
                            "divisible by tp {}",
                            r.key_heads, r.value_heads, b.tp));
  }
  if (b.options->moe_backend == "megamoe") {
    return Fail(ErrorKind::kInvalidArgument,
                "moe_backend megamoe serves DeepSeek-V4 only, not this model");
  }
  if (b.model->num_experts > 0) IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  FamilyPlan plan;
  plan.kv = Kv(b);
  IC_ASSIGN(plan.context_ops, LayerWriter(b, Phase::kContext).Write());
  IC_ASSIGN(plan.generation_ops, LayerWriter(b, Phase::kGeneration).Write());
  return plan;
}

constexpr std::array<Architecture, 2> kArchitectures = {
    {{"Qwen3_5ForConditionalGeneration", true}, {"Qwen3_5MoeForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kQwen35Family = {.id = ModelFamily::kQwen35,
                                   .architectures = kArchitectures,
                                   .is_moe = [](const ModelConfig& m) { return m.num_experts > 0; },
                                   .is_moe_always = false,
                                   .context_parallel = false,
                                   .parse = Parse,
                                   .build = Build};

}  // namespace infercast
