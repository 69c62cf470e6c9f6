// Hybrids of Mamba-2, attention, routed experts and plain feed-forward layers (Nemotron-H and
// Nemotron-3). A pattern with one letter a layer says which kind each is; layers of a kind are
// priced as one group, so their order does not matter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

struct NemotronHRecord : FamilyRecord {
  std::int64_t mamba = 0, attention = 0, experts = 0, mlp = 0;  // layers of each kind
  std::int64_t mamba_heads = 0, mamba_head_dim = 0, state_size = 0, conv_kernel = 0;
  std::int64_t groups = 0, chunk_size = 0;
  std::int64_t shared_inter_size = 0;
  std::int64_t latent_size = 0;  // width of the experts' latent space; 0 = the hidden size
};

// One letter a layer: M(amba), E(xperts), * (attention), - (feed-forward).
Result<std::string> Pattern(JsonView source) {
  if (const auto pattern = source["hybrid_override_pattern"].AsText()) return std::string(*pattern);
  const JsonView blocks = source["layers_block_type"];
  if (!blocks.is_array()) {
    return Fail(ErrorKind::kModelConfig,
                "the configuration has neither hybrid_override_pattern nor layers_block_type");
  }
  std::string pattern;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string_view kind = blocks.Item(i).AsText().value_or("");
    if (kind == "mamba" || kind == "M") {
      pattern += 'M';
    } else if (kind == "moe" || kind == "E") {
      pattern += 'E';
    } else if (kind == "attention" || kind == "*") {
      pattern += '*';
    } else if (kind == "mlp" || kind == "dense" || kind == "ffn" || kind == "-") {
      pattern += '-';
    } else {
      return Fail(ErrorKind::kModelConfig,
                  fmt::format("unknown layer kind {} in layers_block_type: use mamba, moe, "
                              "attention, mlp",
                              blocks.Item(i).Display()));
    }
  }
  return pattern;
}

Result<std::int64_t> Required(JsonView source, std::string_view key) {
  if (!source[key].is_present()) {
    return Fail(ErrorKind::kModelConfig, fmt::format("the configuration lacks '{}'", key));
  }
  return ReadSize(source, key);
}

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<NemotronHRecord>();
  const JsonView source = m.decoder();
  IC_ASSIGN(const std::string pattern, Pattern(source));
  const auto count = [&](char kind) {
    return static_cast<std::int64_t>(std::count(pattern.begin(), pattern.end(), kind));
  };
  record->mamba = count('M');
  record->attention = count('*');
  record->experts = count('E');
  record->mlp = count('-');
  IC_ASSIGN(record->mamba_heads, Required(source, "mamba_num_heads"));
  IC_ASSIGN(record->mamba_head_dim, Required(source, "mamba_head_dim"));
  IC_ASSIGN(record->state_size, Required(source, "ssm_state_size"));
  IC_ASSIGN(record->conv_kernel, Required(source, "conv_kernel"));
  IC_ASSIGN(record->groups, Required(source, "n_groups"));
  IC_ASSIGN(record->chunk_size, Required(source, "chunk_size"));
  IC_ASSIGN(record->shared_inter_size, ReadSize(source, "moe_shared_expert_intermediate_size"));
  IC_ASSIGN(record->latent_size, ReadSize(source, "moe_latent_size"));
  m.record = std::move(record);
  return {};
}

void AddMambaLayers(OpList& ops, const NemotronHRecord& r) {
  const BuildContext& b = ops.build();
  const std::int64_t h = b.model->hidden_size;
  const double c = static_cast<double>(r.mamba);
  const std::int64_t heads = r.mamba_heads / b.tp;
  const std::int64_t inner = heads * r.mamba_head_dim;
  const std::int64_t groups = std::max<std::int64_t>(r.groups / b.tp, 1);
  // The kernels are looked up by the whole model's head and group counts.
  const auto kernel = [&](std::string_view name, std::string_view prefill,
                          std::string_view decode) {
    ops.Add(Mamba2{.name = ops.Name(name),
                   .scale_factor = ops.Scaled(c),
                   .kernel_source = std::string(ops.is_context() ? prefill : decode),
                   .phase = std::string(PhaseName(ops.phase())),
                   .d_model = ops.Wire(h),
                   .d_state = ops.Wire(r.state_size),
                   .d_conv = ops.Wire(r.conv_kernel),
                   .nheads = ops.Wire(r.mamba_heads),
                   .head_dim = ops.Wire(r.mamba_head_dim),
                   .n_groups = ops.Wire(r.groups),
                   .chunk_size = ops.Wire(r.chunk_size)});
  };
  ops.Norm("mamba_norm", c);
  ops.Gemm("mamba_in_proj_gemm", c, 2 * inner + 2 * groups * r.state_size + heads, h, b.quant.gemm);
  kernel("mamba_conv1d", "causal_conv1d_fn", "causal_conv1d_update");
  kernel("mamba_ssm", "mamba_chunk_scan_combined", "selective_state_update");
  ops.Gemm("mamba_out_proj_gemm", c, h, inner, b.quant.gemm);
  ops.AllReduce("mamba_ar", c);
}

void AddAttentionLayers(OpList& ops, const NemotronHRecord& r) {
  const BuildContext& b = ops.build();
  const ModelConfig& m = *b.model;
  const double c = static_cast<double>(r.attention);
  const std::int64_t kv_heads = b.KvHeadsPerGpu();
  ops.Norm("attn_norm", c);
  ops.Gemm("qkv_gemm", c, m.heads * m.head_dim / b.tp + m.head_dim * kv_heads * 2, m.hidden_size,
           b.quant.gemm);
  ops.Attention(c, {.heads = m.heads / b.tp, .kv_heads = kv_heads, .head_dim = m.head_dim});
  ops.Gemm("proj_gemm", c, m.hidden_size, m.heads * m.head_dim / b.tp, b.quant.gemm,
           {.low_precision_input = true});
  ops.AllReduce("attn_ar", c);
}

void AddExpertLayers(OpList& ops, const NemotronHRecord& r) {
  const BuildContext& b = ops.build();
  const std::int64_t h = b.model->hidden_size;
  const double c = static_cast<double>(r.experts);
  const std::int64_t shared = r.shared_inter_size / b.tp;
  ops.Norm("moe_norm", c);
  ops.Gemm("shared_up_gemm", c, shared, h, b.quant.gemm);
  ops.Elementwise("shared_relu2", c, shared, shared);
  ops.Gemm("shared_down_gemm", c, h, shared, b.quant.gemm, {.low_precision_input = true});
  MoeSettings moe;
  moe.layers = c;
  moe.quant = b.quant.moe;
  moe.distribution = b.Distribution("1.01");
  moe.is_gated = false;
  if (r.latent_size > 0) moe.hidden_size = r.latent_size;
  AddRouter(ops, moe);
  if (r.latent_size > 0) ops.Gemm("fc1_latent_proj_gemm", c, r.latent_size / b.tp, h, b.quant.gemm);
  AddRoutedExperts(ops, moe);
  if (r.latent_size > 0) {
    ops.Gemm("fc2_latent_proj_gemm", c, h, r.latent_size / b.tp, b.quant.gemm,
             {.low_precision_input = true});
  }
  ops.AllReduce("moe_ar", c);
}

void AddMlpLayers(OpList& ops, const NemotronHRecord& r) {
  const BuildContext& b = ops.build();
  const double c = static_cast<double>(r.mlp);
  const std::int64_t width = b.model->inter_size / b.tp;
  ops.Norm("mlp_norm", c);
  ops.Gemm("mlp_up_gemm", c, width, b.model->hidden_size, b.quant.gemm);
  ops.Elementwise("mlp_relu2", c, width, width);
  ops.Gemm("mlp_down_gemm", c, b.model->hidden_size, width, b.quant.gemm);
  ops.AllReduce("mlp_ar", c);
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase) {
  const auto& r = b.model->RecordAs<NemotronHRecord>();
  OpList ops(b, phase);
  ops.Embedding("embedding", 1, b.model->vocab, b.model->hidden_size);
  if (r.mamba > 0) AddMambaLayers(ops, r);
  if (r.attention > 0) AddAttentionLayers(ops, r);
  if (r.experts > 0) AddExpertLayers(ops, r);
  if (r.mlp > 0) AddMlpLayers(ops, r);
  ops.PipelineHandOver();
  ops.Gemm("logits_gemm", 1, b.model->vocab / b.tp, b.model->hidden_size, GemmQuant::kBfloat16);
  return std::move(ops).Take();
}

Result<FamilyPlan> Build(const BuildContext& b) {
  FamilyPlan plan;
  plan.kv = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration));
  return plan;
}

constexpr std::array<Architecture, 1> kArchitectures = {{{"NemotronHForCausalLM"}}};

}  // namespace

const FamilyEntry kNemotronHFamily = {
    .id = ModelFamily::kNemotronH,
    .architectures = kArchitectures,
    .is_moe = [](const ModelConfig& m) { return m.RecordAs<NemotronHRecord>().experts > 0; },
    .is_moe_always = false,
    .context_parallel = false,
    .parse = Parse,
    .build = Build};

}  // namespace infercast
