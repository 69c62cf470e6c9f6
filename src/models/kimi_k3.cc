// Kimi-K3: most layers hold the recurrent state of Kimi delta attention, every few attend in full
// over a multi-head latent with an output gate; leading layers are dense, the others route tokens
// in a latent space narrower than the residual. Speculation drafts a block of tokens with a small
// dense model that is listed operator by operator, so no draft factor scales the layers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

struct KimiK3Record : FamilyRecord {
  std::int64_t linear_layers = 0, full_layers = 0;
  std::int64_t kda_heads = 0, kda_dim = 0, conv_kernel = 0;
  std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
  std::int64_t topk = 0;
  std::int64_t latent_size = 0;  // width of the experts' latent space; 0 = the hidden size
  std::int64_t shared_experts = 0;
  std::int64_t dense_layers = 0;    // leading layers without experts
  std::int64_t residual_block = 0;  // layers between attention residuals; 0 = none
};

// The draft model of speculative decoding, the same for every checkpoint.
constexpr std::int64_t kDraftLayers = 5;
constexpr std::int64_t kDraftInter = 14336;
constexpr std::int64_t kDraftHeads = 64;
constexpr std::int64_t kDraftKvHeads = 16;  // of its grouped-query form
constexpr std::int64_t kDraftHeadDim = 64;
constexpr std::int64_t kDraftQRank = 1536;  // of its latent form (vLLM)
constexpr std::int64_t kDraftKvWidth = 512 + 64;
constexpr std::int64_t kDraftQHead = 128 + 64;
constexpr std::int64_t kDraftVHead = 128;

// Recurrent states a request holds: the current one and those of its speculative branches.
constexpr double kStateSlots = 5;

// Head counts and head widths are multiplied with each other; the bound keeps the products exact.
Result<std::int64_t> RequireFactor(JsonView source, std::string_view key) {
  IC_ASSIGN(const std::int64_t value, RequireSize(source, key));
  constexpr std::int64_t kLargest = std::int64_t{1} << 20;
  if (value > kLargest) {
    return Fail(ErrorKind::kModelConfig, fmt::format("{} = {} is above {}", key, value, kLargest));
  }
  return value;
}

Status ReadLinearLayers(KimiK3Record& record, JsonView source, std::int64_t layers) {
  const JsonView linear = source["linear_attn_config"];
  IC_ASSIGN(record.kda_heads, RequireFactor(linear, "num_heads"));
  IC_ASSIGN(record.kda_dim, RequireFactor(linear, "head_dim"));
  IC_ASSIGN(record.conv_kernel, ReadSize(linear, "short_conv_kernel_size", 4));
  const JsonView ids = linear["kda_layers"];
  if (!ids.is_array() || ids.size() == 0) {
    return Fail(ErrorKind::kModelConfig, "linear_attn_config.kda_layers lists no layers");
  }
  std::vector<std::int64_t> seen;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    IC_ASSIGN(const std::int64_t id, ToSize(ids.Item(i), "an entry of kda_layers"));
    if (id < 1 || id > layers) {
      return Fail(
          ErrorKind::kModelConfig,
          fmt::format("kda_layers has layer {}, layers are numbered from 1 to {}", id, layers));
    }
    seen.push_back(id);
  }
  std::ranges::sort(seen);
  const auto repeated = std::ranges::unique(seen);
  seen.erase(repeated.begin(), repeated.end());
  record.linear_layers = static_cast<std::int64_t>(seen.size());
  record.full_layers = layers - record.linear_layers;
  return {};
}

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<KimiK3Record>();
  const JsonView source = m.decoder();
  IC_RETURN_IF_ERROR(ReadLinearLayers(*record, source, m.layers));
  IC_ASSIGN(record->q_rank, RequireSize(source, "q_lora_rank"));
  IC_ASSIGN(record->kv_rank, RequireSize(source, "kv_lora_rank"));
  IC_ASSIGN(record->nope_dim, RequireFactor(source, "qk_nope_head_dim"));
  IC_ASSIGN(record->rope_dim, RequireFactor(source, "qk_rope_head_dim"));
  IC_ASSIGN(record->v_dim, RequireFactor(source, "v_head_dim"));
  const std::string_view topk_key = source["num_experts_per_tok"].is_present()
                                        ? std::string_view("num_experts_per_tok")
                                        : std::string_view("num_experts_per_token");
  IC_ASSIGN(record->topk, ReadSize(source, topk_key));
  IC_ASSIGN(record->latent_size, ReadSize(source, "routed_expert_hidden_size"));
  if (source["num_shared_experts"].is_present()) {
    IC_ASSIGN(record->shared_experts, RequireFactor(source, "num_shared_experts"));
  }
  IC_ASSIGN(record->dense_layers, ReadSize(source, "first_k_dense_replace"));
  IC_ASSIGN(record->residual_block, ReadSize(source, "attn_res_block_size"));
  // Unlike elsewhere, the dense width never stands for the experts'.
  IC_ASSIGN(m.moe_inter_size, ReadSize(source, "moe_intermediate_size"));
  m.record = std::move(record);
  return {};
}

class LayerWriter {
 public:
  LayerWriter(const BuildContext& b, Phase phase)
      : b_(b),
        m_(*b.model),
        r_(b.model->RecordAs<KimiK3Record>()),
        vllm_(b.backend == Backend::kVllm),
        speculative_(b.nextn > 0),
        ops_(b, phase) {
    ops_.set_draft_scale(1.0);
  }

  Result<std::vector<Operator>> Write() && {
    const std::int64_t h = m_.hidden_size;
    ops_.Embedding("embedding", 1, m_.vocab / b_.tp, h);
    ops_.AllReduce("embedding_ar", 1);
    if (r_.linear_layers > 0) LinearLayers();
    if (r_.full_layers > 0) FullLayers();
    if (r_.residual_block > 0) {
      ops_.Elementwise("attn_res", static_cast<double>(2 * b_.L), 4 * h, 2 * h);
    }
    FeedForward();
    ops_.Gemm("logits_gemm", 1, m_.vocab / b_.tp, h, GemmQuant::kBfloat16);
    ops_.PipelineHandOver();
    if (speculative_ && !ops_.is_context()) DraftModel();
    return std::move(ops_).Take();
  }

 private:
  void Kernel(std::string_view name, double layers, std::string_view kernel, std::string_view phase,
              std::int64_t draft_tokens = 0) {
    const std::int64_t heads = r_.kda_heads / b_.tp;
    ops_.Add(Kda{.name = ops_.Name(name),
                 .scale_factor = ops_.Scaled(layers),
                 .kernel_source = std::string(kernel),
                 .phase = std::string(phase),
                 .d_model = ops_.Wire(m_.hidden_size),
                 .d_conv = ops_.Wire(r_.conv_kernel),
                 .num_k_heads = ops_.Wire(heads),
                 .head_k_dim = ops_.Wire(r_.kda_dim),
                 .num_v_heads = ops_.Wire(heads),
                 .head_v_dim = ops_.Wire(r_.kda_dim),
                 .draft_tokens = draft_tokens});
  }

  // Returns whether the kernels normalise their own output.
  bool LinearKernels(double c) {
    if (ops_.is_context()) {
      Kernel("kda_conv1d", c, "causal_conv1d_fn_qkv3", "context");
      Kernel("kda_scan", c, vllm_ ? "flashkda_fwd" : "chunk_kda", "context");
      return false;
    }
    if (speculative_) {
      // Verifies the drafted block and its first token in one pass.
      const std::int64_t tokens = b_.nextn + 1;
      Kernel("kda_conv1d", c, "causal_conv1d_update", "verify", tokens);
      Kernel("kda_verify", c,
             vllm_ ? "fused_recurrent_kda" : "fused_sigmoid_gating_delta_rule_update", "verify",
             tokens);
      return false;
    }
    if (vllm_) {
      Kernel("kda_fused_decode", c, "fused_kda_decode", "generation");
      return true;
    }
    Kernel("kda_conv1d", c, "causal_conv1d_update", "generation");
    Kernel("kda_recurrent", c, "fused_recurrent_kda_packed_decode", "generation");
    return false;
  }

  void LinearLayers() {
    const double c = static_cast<double>(r_.linear_layers);
    const std::int64_t h = m_.hidden_size;
    const std::int64_t width = r_.kda_heads / b_.tp * r_.kda_dim;
    const GemmQuant quant = b_.quant.gemm;
    ops_.Norm("kda_norm", c);
    ops_.Gemm("kda_qkvg_gemm", c, 4 * width, h, quant);
    // Not sharded: every GPU computes the decay inputs of all heads.
    ops_.Gemm("kda_bfa_gemm", c, r_.kda_heads + r_.kda_dim, h, quant);
    ops_.Gemm("kda_fb_gemm", c, width, r_.kda_dim, quant);
    if (!LinearKernels(c)) ops_.Elementwise("kda_onorm", c, 2 * width, width);
    ops_.Gemm("kda_o_gemm", c, h, width, quant, {.low_precision_input = true});
    ops_.AllReduce("kda_ar", c);
  }

  // q expansion, attention and output projection, with `inner` between the first and the last.
  template <typename Inner>
  void LatentParts(OpList& ops, double c, Inner inner) {
    const std::int64_t q_width = m_.heads * (r_.nope_dim + r_.rope_dim);
    ops.Gemm("mla_q_b_gemm", c, q_width / b_.tp, r_.q_rank, b_.quant.gemm);
    inner();
    ops.Gemm("mla_o_gemm", c, m_.hidden_size, m_.heads * r_.v_dim / b_.tp, b_.quant.gemm,
             {.low_precision_input = true});
  }

  void ExpandKv(OpList& ops, double c) {
    const std::int64_t kv_width = m_.heads * (r_.nope_dim + r_.v_dim);
    ops.Gemm("mla_kv_b_gemm", c, kv_width / b_.tp, r_.kv_rank, b_.quant.gemm);
  }

  template <typename Module>
  void LatentModule(double c) {
    Module module;
    module.name = ops_.Name("mla_module");
    module.scale_factor = ops_.Scaled(c);
    module.num_heads = ops_.Wire(m_.heads / b_.tp);
    module.kv_cache_dtype = b_.quant.kv;
    module.fmha_quant_mode = b_.quant.fmha;
    module.gemm_quant_mode = b_.quant.gemm;
    module.native_num_heads = ops_.Wire(m_.heads);
    OpList parts = ops_.Sub();
    LatentParts(parts, c, [&] {
      if (parts.is_context()) ExpandKv(parts, c);
      parts.Attention(
          c, {.heads = m_.heads / b_.tp, .kv_heads = m_.kv_heads / b_.tp, .head_dim = r_.v_dim});
    });
    ops_.Fallback("mla_block", std::move(module), std::move(parts));
  }

  void LatentContext(double c) {
    LatentParts(ops_, c, [&] {
      ExpandKv(ops_, c);
      ops_.Add(ContextMla{.name = ops_.Name("attention"),
                          .scale_factor = ops_.Scaled(c),
                          .num_heads = ops_.Wire(m_.heads / b_.tp),
                          .kv_cache_dtype = b_.quant.kv,
                          .fmha_quant_mode = b_.quant.fmha});
    });
  }

  // Decode attends in the latent space: queries are absorbed into it and the output expanded.
  void LatentGeneration(double c) {
    const std::uint32_t heads = ops_.Wire(m_.heads / b_.tp);
    const GemmQuant quant =
        b_.quant.gemm == GemmQuant::kBfloat16 ? GemmQuant::kBfloat16 : GemmQuant::kFp8;
    const auto absorb = [&](std::string_view name, bool pre) {
      ops_.Add(MlaBmm{.name = ops_.Name(name),
                      .scale_factor = ops_.Scaled(c),
                      .num_heads = heads,
                      .quant_mode = quant,
                      .is_pre = pre});
    };
    LatentParts(ops_, c, [&] {
      absorb("bmm_pre", true);
      ops_.Add(GenerationMla{.name = ops_.Name("attention"),
                             .scale_factor = ops_.Scaled(c),
                             .num_heads = heads,
                             .kv_cache_dtype = b_.quant.kv});
      absorb("bmm_post", false);
    });
  }

  void FullLayers() {
    const double c = static_cast<double>(r_.full_layers);
    const std::int64_t h = m_.hidden_size;
    const std::int64_t out_width = m_.heads * r_.v_dim;
    ops_.Norm("mla_norm", c);
    ops_.Gemm("mla_downscale_gemm", c, r_.q_rank + r_.kv_rank + r_.rope_dim, h, b_.quant.gemm);
    if (vllm_ && ops_.is_context()) {
      LatentModule<MlaModuleContext>(c);
    } else if (vllm_) {
      LatentModule<MlaModuleGeneration>(c);
    } else if (ops_.is_context()) {
      LatentContext(c);
    } else {
      LatentGeneration(c);
    }
    ops_.Gemm("mla_gate_gemm", c, out_width / b_.tp, h, b_.quant.gemm);
    ops_.Elementwise("mla_gate_mul", c, 2 * out_width / b_.tp, out_width / b_.tp);
    ops_.AllReduce("mla_ar", c);
  }

  void DenseLayers() {
    const double c = static_cast<double>(r_.dense_layers);
    MlpBlock dense = GatedMlp(c, m_.inter_size, b_.tp, b_.quant.gemm);
    dense.up = "dense_gate_up_gemm";
    dense.act = "dense_act_gate";
    dense.down = "dense_down_gemm";
    AddMlpBlock(ops_, dense);
    ops_.AllReduce("dense_ffn_ar", c);
  }

  // Router, latent projections and shared experts stay in 16 bits.
  void ExpertLayers(double c) {
    const std::int64_t h = m_.hidden_size;
    const std::int64_t latent = r_.latent_size > 0 ? r_.latent_size : h;
    MoeSettings moe;
    moe.layers = c;
    moe.quant = b_.quant.moe;
    moe.distribution = b_.Distribution("1.01");
    moe.hidden_size = latent;
    moe.topk = r_.topk;
    AddRouter(ops_, moe);
    ops_.Gemm("latent_down_gemm", c, latent, h, GemmQuant::kBfloat16);
    ops_.Elementwise("latent_norm", c, 2 * latent, 2 * latent);
    AddRoutedExperts(ops_, moe);
    ops_.Gemm("latent_up_gemm", c, h, latent, GemmQuant::kBfloat16);
    const std::int64_t shared_width = r_.shared_experts * m_.moe_inter_size;
    if (shared_width == 0) return;
    MlpBlock shared = GatedMlp(c, shared_width, b_.tp, GemmQuant::kBfloat16);
    shared.up = "shared_gate_up_gemm";
    shared.act = "shared_act_gate";
    shared.down = "shared_down_gemm";
    shared.low_precision_down = false;
    AddMlpBlock(ops_, shared);
  }

  void FeedForward() {
    ops_.Norm("ffn_norm", static_cast<double>(b_.L));
    if (r_.dense_layers > 0) DenseLayers();
    const std::int64_t expert_layers = b_.L - r_.dense_layers;
    if (expert_layers > 0 && m_.num_experts > 0) ExpertLayers(static_cast<double>(expert_layers));
  }

  // A step is priced over all tokens of the verified block (1 + drafts). The draft layers see only
  // the drafts of it, the operators that run once a step one token of it.
  void DraftModel() {
    const double block = static_cast<double>(b_.nextn + 1);
    const double layers = static_cast<double>(kDraftLayers);
    const std::int64_t h = m_.hidden_size;
    const std::int64_t tp = b_.tp;
    const GemmQuant quant = b_.quant.gemm;
    OpList draft = ops_.Sub();
    draft.set_prefix("draft");
    draft.set_draft_scale(static_cast<double>(b_.nextn) / block);
    draft.Embedding("embedding", 1, m_.vocab / tp, h);
    draft.Norm("norm", 2 * layers);
    std::int64_t kv_width = 0;
    if (vllm_) {
      kv_width = kDraftKvWidth;
      draft.Gemm("downscale_gemm", layers, kDraftQRank + kDraftKvWidth, h, quant);
      draft.Gemm("q_b_gemm", layers, kDraftHeads * kDraftQHead / tp, kDraftQRank, quant);
      draft.Attention(
          layers,
          {.heads = kDraftHeads / tp, .kv_heads = kDraftHeads / tp, .head_dim = kDraftVHead});
      draft.Gemm("proj_gemm", layers, h, kDraftHeads * kDraftVHead / tp, quant,
                 {.low_precision_input = true});
    } else {
      kv_width = 2 * kDraftKvHeads * kDraftHeadDim / tp;
      draft.Gemm("qkv_gemm", layers,
                 (kDraftHeads * kDraftHeadDim + 2 * kDraftKvHeads * kDraftHeadDim) / tp, h, quant);
      draft.Attention(layers, {.heads = kDraftHeads / tp,
                               .kv_heads = std::max<std::int64_t>(1, kDraftKvHeads / tp),
                               .head_dim = kDraftHeadDim});
      draft.Gemm("proj_gemm", layers, h, kDraftHeads * kDraftHeadDim / tp, quant,
                 {.low_precision_input = true});
    }
    MlpBlock mlp = GatedMlp(layers, kDraftInter, tp, quant);
    mlp.up = "gate_up_gemm";
    mlp.down = "down_gemm";
    AddMlpBlock(draft, mlp);
    draft.AllReduce("ar", 2 * layers);
    draft.set_draft_scale(1.0 / block);
    draft.Gemm("kv_proj_gemm", layers, kv_width, h, quant);
    draft.Gemm("logits_gemm", 1, m_.vocab / tp, h, GemmQuant::kBfloat16);
    ops_.Append(std::move(draft));
  }

  const BuildContext& b_;
  const ModelConfig& m_;
  const KimiK3Record& r_;
  bool vllm_;
  bool speculative_;
  OpList ops_;
};

// The latent of the full layers (on every GPU), the draft model's own cache, and recurrent states.
KvLayout Kv(const BuildContext& b) {
  const auto& r = b.model->RecordAs<KimiK3Record>();
  KvLayout kv;
  std::int64_t elements = r.full_layers * (r.kv_rank + r.rope_dim);
  if (b.nextn > 0) {
    const std::int64_t draft_heads = std::max<std::int64_t>(1, kDraftKvHeads / b.tp);
    elements += kDraftLayers *
                (b.backend == Backend::kVllm ? kDraftKvWidth : 2 * draft_heads * kDraftHeadDim);
  }
  kv.elements_per_token = static_cast<double>(elements);
  kv.terms.push_back({.bytes = b.KvBytesPerElement() * kv.elements_per_token});
  const double heads = static_cast<double>(std::max<std::int64_t>(1, r.kda_heads / b.tp));
  const double dim = static_cast<double>(r.kda_dim);
  const double recurrent = heads * dim * dim * 4;  // float32
  const double convolution = static_cast<double>((r.conv_kernel - 1) * 3) * heads * dim * 2;
  kv.state_bytes = static_cast<double>(r.linear_layers) * (recurrent + convolution) * kStateSlots;
  kv.inverse = KvInverse::kAffine;
  return kv;
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  const std::int64_t kda_heads = b.model->RecordAs<KimiK3Record>().kda_heads;
  if (kda_heads % b.tp != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tp = {} does not divide the {} heads of the linear-attention layers",
                            b.tp, kda_heads));
  }
  FamilyPlan plan;
  plan.kv = Kv(b);
  IC_ASSIGN(plan.context_ops, LayerWriter(b, Phase::kContext).Write());
  IC_ASSIGN(plan.generation_ops, LayerWriter(b, Phase::kGeneration).Write());
  return plan;
}

constexpr std::array<Architecture, 1> kArchitectures = {{{"KimiK3ForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kKimiK3Family = {.id = ModelFamily::kKimiK3,
                                   .architectures = kArchitectures,
                                   .is_moe = nullptr,
                                   .is_moe_always = true,
                                   .context_parallel = false,
                                   .parse = Parse,
                                   .build = Build};

}  // namespace infercast
