// DeepSeek V3.2 and GLM-5.x: latent attention over the positions that an indexer selects, measured
// as one module; routed experts beside a shared one in every layer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "models/blocks/latent_moe.h"
#include "models/families.h"

namespace infercast {

namespace {

struct SparseRecord : FamilyRecord {
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t index_head_dim = 0;
};

Status Parse(ModelConfig& m) {
  const JsonView c = m.decoder();
  for (const char* key :
       {"q_lora_rank", "qk_nope_head_dim", "v_head_dim", "index_n_heads", "index_topk"}) {
    IC_RETURN_IF_ERROR(RequireSize(c, key));
  }
  auto record = std::make_shared<SparseRecord>();
  IC_ASSIGN(record->kv_lora_rank, RequireSize(c, "kv_lora_rank"));
  IC_ASSIGN(record->qk_rope_head_dim, RequireSize(c, "qk_rope_head_dim"));
  IC_ASSIGN(record->index_head_dim, RequireSize(c, "index_head_dim"));
  m.record = std::move(record);
  return {};
}

// Whether entry i of a per-layer pattern ("SFFS" or a list of letters) says that the layer skips.
bool SkipsByPattern(JsonView pattern, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (const auto text = pattern.AsText()) return at < text->size() && (*text)[at] == 'S';
  return at < pattern.size() && pattern.Item(at).AsText() == "S";
}

// Share of the layers that run the indexer themselves; the others reuse a neighbour's selection,
// which only SGLang does.
Result<double> FullLayerFraction(const BuildContext& b) {
  if (b.backend != Backend::kSglang || b.L == 0) return 1.0;
  const JsonView raw = b.model->root();
  const JsonView pattern = raw["index_topk_pattern"];
  const JsonView offset = raw["index_skip_topk_offset"];
  std::int64_t frequency = 1;
  if (raw["index_topk_freq"].Truthy()) {
    IC_ASSIGN(frequency, ToSize(raw["index_topk_freq"], "index_topk_freq"));
  }
  if (frequency <= 1 && !pattern.Truthy()) return 1.0;
  std::int64_t shift = 1;
  if (offset.is_present()) {
    const std::optional<std::int64_t> value = offset.AsInteger();
    if (!value) return Fail(ErrorKind::kModelConfig, "index_skip_topk_offset is not an integer");
    shift = *value - 1;
  }
  std::int64_t full = 0;
  for (std::int64_t i = 0; i < b.L; ++i) {
    const bool skips = pattern.is_present() ? SkipsByPattern(pattern, i)
                                            : std::max<std::int64_t>(i - shift, 0) % frequency != 0;
    full += skips ? 0 : 1;
  }
  return static_cast<double>(full) / static_cast<double>(b.L);
}

struct PartModes {
  DsaProjectionQuants projections;
  GemmQuant module;  // key of the measured module
  GemmQuant shared;
};

PartModes ReadPartModes(const BuildContext& b) {
  const std::vector<std::string> patterns = ExclusionPatterns(b.model->root());
  const ProjectionExclusions excluded = ExcludedProjections(patterns);
  const auto mode = [&](bool is_excluded) {
    return is_excluded ? GemmQuant::kBfloat16 : b.quant.gemm;
  };
  PartModes modes{};
  modes.projections = {mode(excluded.q), mode(excluded.kv), mode(excluded.o),
                       mode(excluded.indexer)};
  // A mixed checkpoint keeps the module, keyed by its output projection.
  modes.module = modes.projections.o;
  const bool shared_excluded = std::ranges::any_of(patterns, [](const std::string& pattern) {
    return pattern.find("shared_expert") != std::string::npos;
  });
  modes.shared = mode(shared_excluded);
  return modes;
}

constexpr std::uint32_t kIndexTopk = 2048;

template <typename Module>
Module SparseAttention(OpList& ops, const PartModes& modes, double full_fraction) {
  const BuildContext& b = ops.build();
  Module module;
  module.name = ops.Name("attention");
  module.scale_factor = ops.Scaled(static_cast<double>(b.L));
  module.num_heads = ops.Wire(b.model->heads / b.tp);
  module.kv_cache_dtype = b.quant.kv;
  module.fmha_quant_mode = ops.is_context() ? b.quant.fmha : FmhaQuant::kBfloat16;
  module.gemm_quant_mode = modes.module;
  module.architecture = b.model->architecture;
  module.index_topk = kIndexTopk;
  module.cp_size = ops.is_context() ? ops.Wire(b.cp) : 1;
  module.full_frac = full_fraction;
  module.attn_projection_quant_modes = modes.projections;
  return module;
}

void AddAttention(OpList& ops, const PartModes& modes, double full_fraction) {
  if (ops.is_context()) {
    ops.Add(SparseAttention<DsaContext>(ops, modes, full_fraction));
  } else {
    ops.Add(SparseAttention<DsaGeneration>(ops, modes, full_fraction));
  }
}

// Context ranks split only the tokens of the norms here.
void AddNorm(OpList& ops, std::string_view name, double layers) {
  const std::int64_t both = 2 * ops.build().model->hidden_size;
  ops.Elementwise(name, layers, both, both, ops.is_context() ? ops.build().cp : 1);
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, double full_fraction) {
  constexpr double kOverlapDiscount = 0.9;
  const ModelConfig& m = *b.model;
  const double L = static_cast<double>(b.L);
  const PartModes modes = ReadPartModes(b);
  const bool large_ep = b.options->moe_comm.any();
  OpList ops(b, phase);

  if (large_ep && b.backend == Backend::kSglang) {
    const auto exchange = [&](std::string_view name, std::string_view operation) {
      if (b.tp <= 1 || phase != Phase::kContext) return;
      ops.Collective(name, L, operation, static_cast<double>(m.hidden_size), b.tp,
                     CommQuant::kHalf);
    };
    exchange("tp_all_gather", "all_gather");
    AddAttention(ops, modes, full_fraction);
    exchange("tp_reduce_scatter", "reduce_scatter");
    IC_RETURN_IF_ERROR(AddLargeEpExperts(ops, L, b.quant.gemm));
    return std::move(ops).Take();
  }

  const bool trtllm_large_ep = large_ep && b.backend == Backend::kTrtllm;
  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  if (trtllm_large_ep && phase == Phase::kGeneration) ops.set_discount(kOverlapDiscount);
  AddNorm(ops, "add_norm_1", L);
  AddAttention(ops, modes, full_fraction);
  AddNorm(ops, "add_norm_2", L);
  if (large_ep) {
    IC_RETURN_IF_ERROR(AddLargeEpExperts(ops, L, trtllm_large_ep ? modes.shared : b.quant.gemm));
  } else {
    AddSharedAndRoutedExperts(ops, L, modes.shared, b.moe_tp);
  }
  ops.set_discount(1.0);
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.PipelineHandOver();
  return std::move(ops).Take();
}

// The latent in the cache's format, the rotary key in 16 bits, and the indexer's key in fp8 with a
// 4-byte scale for every 128 values.
KvLayout SparseKv(const BuildContext& b, const SparseRecord& r) {
  KvLayout kv = LatentKv(b, r.kv_lora_rank != 0 ? r.kv_lora_rank : 512,
                         r.qk_rope_head_dim != 0 ? r.qk_rope_head_dim : 64);
  const std::int64_t index = r.index_head_dim + (r.index_head_dim + 127) / 128 * 4;
  const double per_layer = static_cast<double>(r.kv_lora_rank) * b.KvBytesPerElement() +
                           static_cast<double>(r.qk_rope_head_dim * 2 + index);
  kv.terms = {{.bytes = static_cast<double>(b.L) * per_layer}};
  return kv;
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckGpusPerNode(b));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  if (b.options->moe_comm.any() && b.backend == Backend::kTrtllm) {
    IC_RETURN_IF_ERROR(CheckTrtllmLargeEp(b));
  }
  IC_ASSIGN(const double full_fraction, FullLayerFraction(b));
  FamilyPlan plan;
  plan.kv = SparseKv(b, b.model->RecordAs<SparseRecord>());
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, full_fraction));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, full_fraction));
  return plan;
}

constexpr std::array<Architecture, 2> kArchitectures = {
    {{"DeepseekV32ForCausalLM"}, {"GlmMoeDsaForCausalLM"}}};

}  // namespace

const FamilyEntry kDeepseekV32Family = {.id = ModelFamily::kDeepseekV32,
                                        .architectures = kArchitectures,
                                        .is_moe = nullptr,
                                        .is_moe_always = true,
                                        .context_parallel = true,
                                        .parse = Parse,
                                        .build = Build};

}  // namespace infercast
