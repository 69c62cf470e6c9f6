// DeepSeek V3 / R1 and Kimi K2.x: multi-head latent attention, routed experts beside a shared one
// in every layer. A checkpoint whose projections share one format runs the attention block as a
// measured module, with its parts as the fallback; a mixed one runs the parts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <utility>

#include "models/blocks/latent_moe.h"
#include "models/families.h"

namespace infercast {

namespace {

struct LatentRecord : FamilyRecord {
  std::int64_t v_head_dim = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_rope_head_dim = 0;

  std::int64_t Latent() const { return kv_lora_rank != 0 ? kv_lora_rank : 512; }
  std::int64_t Rotary() const { return qk_rope_head_dim != 0 ? qk_rope_head_dim : 64; }
};

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<LatentRecord>();
  IC_ASSIGN(record->v_head_dim, ReadSize(m.decoder(), "v_head_dim"));
  IC_ASSIGN(record->kv_lora_rank, ReadSize(m.decoder(), "kv_lora_rank"));
  IC_ASSIGN(record->qk_rope_head_dim, ReadSize(m.decoder(), "qk_rope_head_dim"));
  m.record = std::move(record);
  return {};
}

// The kernels are named by the heads of the first model that had them, whatever this one has.
constexpr std::int64_t kKernelHeads = 128;
// Widths of the projections as the kernels were measured.
constexpr std::int64_t kDownWidth = 2112;
constexpr std::int64_t kQueryRank = 1536;
constexpr std::int64_t kQueryHead = 192;
constexpr std::int64_t kKeyValueHead = 256;
constexpr std::int64_t kKeyValueRank = 512;
constexpr std::int64_t kOutputHead = 128;
constexpr std::int64_t kNope = 128;

// Formats of the projections; a checkpoint may leave some of them unquantised.
struct PartModes {
  GemmQuant q, kv, o, down, shared;
  GemmQuant absorbed;  // batched products in decode

  bool exact() const { return q == kv && kv == o; }
};

PartModes ReadPartModes(const BuildContext& b) {
  constexpr GemmQuant kPlain = GemmQuant::kBfloat16;
  const std::vector<std::string> patterns = ExclusionPatterns(b.model->root());
  const ProjectionExclusions excluded = ExcludedProjections(patterns);
  PartModes modes{};
  modes.q = excluded.q ? kPlain : b.quant.gemm;
  modes.kv = excluded.kv ? kPlain : b.quant.gemm;
  modes.o = excluded.o ? kPlain : b.quant.gemm;
  modes.down = excluded.q && excluded.kv ? kPlain : b.quant.gemm;
  modes.absorbed = modes.kv == kPlain ? kPlain : GemmQuant::kFp8;
  modes.shared = b.quant.gemm;
  for (std::string pattern : patterns) {
    for (char& c : pattern) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!b.gemm_explicit && pattern.find("shared_expert") != std::string::npos) {
      modes.shared = kPlain;
    }
  }
  return modes;
}

class Layers {
 public:
  Layers(const BuildContext& b, Phase phase, const KvLayout& kv)
      : b_(b),
        m_(*b.model),
        record_(b.model->RecordAs<LatentRecord>()),
        modes_(ReadPartModes(b)),
        kv_(kv),
        L_(static_cast<double>(b.L)),
        ops_(b, phase, b.cp) {}

  // Fused experts on every backend, and large expert parallelism on vLLM.
  Result<std::vector<Operator>> Standard(bool large_ep) && {
    ops_.Embedding("embedding", 1, m_.vocab, m_.hidden_size);
    ops_.Norm("add_norm_1", L_);
    if (modes_.exact()) {
      OpList parts = ops_.Sub();
      AddAttentionParts(parts);
      if (ops_.is_context()) {
        ops_.Fallback("mla_block", Module<MlaModuleContext>(), std::move(parts));
      } else {
        ops_.Fallback("mla_block", Module<MlaModuleGeneration>(), std::move(parts));
      }
    } else {
      AddAttentionParts(ops_);
    }
    AddContextGather();
    ops_.Norm("add_norm_2", L_);
    if (large_ep) {
      IC_RETURN_IF_ERROR(AddLargeEpExperts(ops_, L_, modes_.shared));
    } else {
      AddSharedAndRoutedExperts(ops_, L_, modes_.shared, b_.tp);
    }
    AddLogits();
    if (b_.backend == Backend::kVllm) ops_.AllReduce("tp_allreduce", 2 * L_);
    AddHandOver();
    return std::move(ops_).Take();
  }

  // In decode a fixed share of every layer hides behind the exchange of the experts' tokens.
  Result<std::vector<Operator>> TrtllmLargeEp() && {
    constexpr double kOverlapDiscount = 0.9;
    const std::int64_t latent = record_.Latent();
    const std::int64_t rotary = record_.Rotary();
    const std::int64_t v = record_.v_head_dim != 0 ? record_.v_head_dim : kOutputHead;
    const std::int64_t h = m_.hidden_size;
    const double L = L_;
    ops_.Embedding("embedding", 1, m_.vocab, h);
    if (!ops_.is_context()) ops_.set_discount(kOverlapDiscount);
    ops_.Norm("add_norm_1", L);
    ops_.Gemm("downscale_gemm", L, kQueryRank + latent + rotary, h, modes_.down);
    ops_.Elementwise("q_a_layernorm", L, kQueryRank, kQueryRank);
    ops_.Gemm("q_b_proj_gemm", L, m_.heads * (kNope + rotary) / b_.tp, kQueryRank, modes_.q);
    if (ops_.is_context()) {
      ops_.Gemm("kv_b_proj_gemm", L, m_.heads * (kNope + v) / b_.tp, latent, modes_.kv);
      AddContextKernel(ops_);
    } else {
      OpList absorb = ops_.Sub();
      OpList rope = ops_.Sub();
      AddAbsorption(absorb, /*pre=*/true);
      rope.Elementwise("rope_kvcache", L, latent + rotary, latent + rotary);
      ops_.Overlap("bmm_rope_overlap", std::move(absorb), std::move(rope));
      AddGenerationKernel(ops_);
      AddAbsorption(ops_, /*pre=*/false);
    }
    ops_.Gemm("proj_gemm", L, h, m_.heads * v / b_.tp, modes_.o);
    ops_.Norm("add_norm_2", L);
    IC_RETURN_IF_ERROR(AddLargeEpExperts(ops_, L, modes_.shared));
    ops_.set_discount(1.0);
    AddLogits();
    AddHandOver();
    return std::move(ops_).Take();
  }

  Result<std::vector<Operator>> SglangLargeEp() && {
    const std::int64_t h = m_.hidden_size;
    ops_.Gemm("qkv_a_proj_gemm", L_, kDownWidth, h, modes_.down,
              {.scale_num_tokens = ops_.is_context() ? b_.tp : 1});
    if (ops_.is_context()) AddTensorParallelExchange("tp_all_gather", "all_gather");
    ops_.Embedding("embedding", 1, m_.vocab, h);
    ops_.Norm("add_norm_1", L_);
    ops_.Gemm("downscale_gemm", L_, kDownWidth, h, modes_.down);
    if (ops_.is_context()) {
      ops_.Add(WideEpContextMla{.name = ops_.Name("attention"),
                                .scale_factor = ops_.Scaled(L_),
                                .num_heads = ops_.Wire(kKernelHeads / b_.tp),
                                .kv_cache_dtype = b_.quant.kv,
                                .fmha_quant_mode = b_.quant.fmha,
                                .attn_backend = AttentionBackend(),
                                .cp_size = ops_.Wire(b_.cp)});
      AddContextGather();
      AddTensorParallelExchange("tp_reduce_scatter", "reduce_scatter");
    } else {
      ops_.Add(WideEpGenerationMla{.name = ops_.Name("attention"),
                                   .scale_factor = ops_.Scaled(L_),
                                   .num_heads = ops_.Wire(kKernelHeads / b_.tp),
                                   .kv_cache_dtype = b_.quant.kv,
                                   .fmha_quant_mode = b_.quant.fmha,
                                   .attn_backend = AttentionBackend()});
    }
    IC_RETURN_IF_ERROR(AddLargeEpExperts(ops_, L_, modes_.shared));
    return std::move(ops_).Take();
  }

 private:
  // The whole attention block as one measurement; context ranks share its layers.
  template <typename Kind>
  Kind Module() {
    const double layers = ops_.is_context() && b_.cp > 1 ? L_ / static_cast<double>(b_.cp) : L_;
    Kind module;
    module.name = ops_.Name("mla_module");
    module.scale_factor = ops_.Scaled(layers);
    module.num_heads = ops_.Wire(m_.heads / b_.tp);
    module.kv_cache_dtype = b_.quant.kv;
    module.fmha_quant_mode = b_.quant.fmha;
    module.gemm_quant_mode = modes_.o;
    module.native_num_heads = ops_.Wire(m_.heads);
    return module;
  }

  void AddAttentionParts(OpList& ops) {
    const std::int64_t h = m_.hidden_size;
    const std::int64_t n = m_.heads;
    const bool vllm = b_.backend == Backend::kVllm;
    ops.Gemm("downscale_gemm", L_, kDownWidth, h, modes_.down);
    ops.Gemm("q_b_proj_gemm", L_, n * kQueryHead / b_.tp, kQueryRank, modes_.q);
    if (ops.is_context()) {
      ops.Gemm("kv_b_proj_gemm", L_, n * kKeyValueHead / b_.tp, kKeyValueRank, modes_.kv);
    }
    if (vllm) {
      ops.Attention(L_, {.heads = n / b_.tp,
                         .kv_heads = m_.kv_heads / b_.tp,
                         .head_dim = record_.v_head_dim != 0 ? record_.v_head_dim : m_.head_dim});
    } else if (ops.is_context()) {
      AddContextKernel(ops);
    } else {
      AddAbsorption(ops, /*pre=*/true);
      AddGenerationKernel(ops);
      AddAbsorption(ops, /*pre=*/false);
    }
    ops.Gemm("proj_gemm", L_, h, n * kOutputHead / b_.tp, modes_.o);
  }

  void AddContextKernel(OpList& ops) {
    ops.Add(ContextMla{.name = ops.Name("attention"),
                       .scale_factor = ops.Scaled(L_),
                       .num_heads = ops.Wire(kKernelHeads / b_.tp),
                       .kv_cache_dtype = b_.quant.kv,
                       .fmha_quant_mode = b_.quant.fmha,
                       .cp_size = ops.Wire(b_.cp)});
  }

  void AddGenerationKernel(OpList& ops) {
    ops.Add(GenerationMla{.name = ops.Name("attention"),
                          .scale_factor = ops.Scaled(L_),
                          .num_heads = ops.Wire(kKernelHeads / b_.tp),
                          .kv_cache_dtype = b_.quant.kv});
  }

  // The key (pre) and value (post) up-projections absorbed into the attention of a decode step.
  void AddAbsorption(OpList& ops, bool pre) {
    ops.Add(MlaBmm{.name = ops.Name(pre ? "bmm_pre" : "bmm_post"),
                   .scale_factor = ops.Scaled(L_),
                   .num_heads = ops.Wire(m_.heads / b_.tp),
                   .quant_mode = modes_.absorbed,
                   .is_pre = pre});
  }

  void AddContextGather() {
    if (b_.cp <= 1 || !ops_.is_context()) return;
    ops_.Collective("cp_all_gather", L_, "all_gather", kv_.Bytes(1) / L_ / b_.CommBytesPerElement(),
                    b_.cp, b_.quant.comm);
  }

  void AddTensorParallelExchange(std::string_view name, std::string_view operation) {
    if (b_.tp <= 1) return;
    ops_.Collective(name, L_, operation, static_cast<double>(m_.hidden_size), b_.tp,
                    CommQuant::kHalf);
  }

  void AddLogits() {
    ops_.Gemm("logits_gemm", 1, m_.vocab / b_.tp, m_.hidden_size, GemmQuant::kBfloat16);
  }

  // Context ranks hand over whole sequences.
  void AddHandOver() {
    ops_.set_seq_split(1);
    ops_.PipelineHandOver();
  }

  std::string AttentionBackend() const {
    const std::optional<std::string>& asked = b_.options->attention_backend;
    return !asked || *asked == "default" ? "flashinfer" : *asked;
  }

  const BuildContext& b_;
  const ModelConfig& m_;
  const LatentRecord& record_;
  PartModes modes_;
  const KvLayout& kv_;
  double L_;
  OpList ops_;
};

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckGpusPerNode(b));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  const bool large_ep = b.options->moe_comm.any();
  if (large_ep && b.backend == Backend::kTrtllm) IC_RETURN_IF_ERROR(CheckTrtllmLargeEp(b));
  if (large_ep && b.backend == Backend::kSglang && kKernelHeads % b.tp != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tp = {} does not divide the {} heads of the wide expert-parallel "
                            "attention kernels",
                            b.tp, kKernelHeads));
  }
  const auto& record = b.model->RecordAs<LatentRecord>();
  FamilyPlan plan;
  plan.kv = LatentKv(b, record.Latent(), record.Rotary());
  const auto list = [&](Phase phase) -> Result<std::vector<Operator>> {
    Layers layers(b, phase, plan.kv);
    if (large_ep && b.backend == Backend::kTrtllm) return std::move(layers).TrtllmLargeEp();
    if (large_ep && b.backend == Backend::kSglang) return std::move(layers).SglangLargeEp();
    return std::move(layers).Standard(large_ep);
  };
  IC_ASSIGN(plan.context_ops, list(Phase::kContext));
  IC_ASSIGN(plan.generation_ops, list(Phase::kGeneration));
  return plan;
}

constexpr std::array<Architecture, 2> kDeepseek = {
    {{"DeepSeekForCausalLM"}, {"DeepseekV3ForCausalLM"}}};
constexpr std::array<Architecture, 1> kKimi = {{{"KimiK25ForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kDeepseekFamily = {.id = ModelFamily::kDeepseek,
                                     .architectures = kDeepseek,
                                     .is_moe = nullptr,
                                     .is_moe_always = true,
                                     .context_parallel = true,
                                     .parse = Parse,
                                     .build = Build};

const FamilyEntry kKimiK25Family = {.id = ModelFamily::kKimiK25,
                                    .architectures = kKimi,
                                    .is_moe = nullptr,
                                    .is_moe_always = true,
                                    .context_parallel = true,
                                    .parse = Parse,
                                    .build = Build};

}  // namespace infercast
