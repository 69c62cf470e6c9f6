// Dense decoders of the Llama kind (Llama, Qwen2, Qwen3, MiMo): pre-norm grouped-query attention
// and a gated feed-forward, everything sharded by tensor parallelism with two all-reduces a layer.
#include <array>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/families.h"

namespace infercast {

namespace {

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const KvLayout& kv) {
  const ModelConfig& m = *b.model;
  const double L = static_cast<double>(b.L);
  const std::int64_t kv_heads = b.KvHeadsPerGpu();
  OpList ops(b, phase, b.cp);

  ops.Embedding("embedding", 1, m.vocab / b.tp, m.hidden_size);
  AttentionBlock attention;
  attention.layers = L;
  attention.qkv_width = QkvWidth(m.heads, m.head_dim, kv_heads, b.tp);
  attention.proj_input = m.heads * m.head_dim / b.tp;
  attention.heads = {
      .heads = m.heads / b.tp, .kv_heads = kv_heads, .head_dim = m.head_dim, .qk_norm = m.qk_norm};
  attention.quant = b.quant.gemm;
  attention.kv_gather_elements = ContextKvGather(b, phase, kv);
  AddAttentionBlock(ops, attention);
  ops.Norm("add_norm_2", L);
  AddMlpBlock(ops, GatedMlp(L, m.inter_size, b.tp, b.quant.gemm));
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.AllReduce("embedding_ar", 1);
  ops.AllReduce("ar_1", L);
  ops.AllReduce("ar_2", L);
  ops.PipelineHandOver();
  return std::move(ops).Take();
}

// Only the architecture tells; no configuration key does.
Status ParseLlama(ModelConfig& m) {
  m.qk_norm = m.architecture == "Qwen3ForCausalLM";
  return {};
}

constexpr std::array<Architecture, 4> kArchitectures = {
    {{"LlamaForCausalLM"}, {"Qwen2ForCausalLM"}, {"Qwen3ForCausalLM"}, {"MiMoForCausalLM"}}};

}  // namespace

KvLayout GroupedQueryKv(const BuildContext& b) {
  KvLayout kv;
  kv.elements_per_token =
      static_cast<double>(b.KvHeadsPerGpu() * b.model->head_dim) * static_cast<double>(b.L * 2);
  kv.terms.push_back({.bytes = b.KvBytesPerElement() * kv.elements_per_token});
  return kv;
}

std::optional<double> ContextKvGather(const BuildContext& b, Phase phase, const KvLayout& kv) {
  if (b.cp <= 1 || phase != Phase::kContext) return std::nullopt;
  return kv.Bytes(1) / static_cast<double>(b.L) / b.CommBytesPerElement();
}

Result<FamilyPlan> BuildLlama(const BuildContext& b) {
  FamilyPlan plan;
  plan.kv = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, plan.kv));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, plan.kv));
  return plan;
}

const FamilyEntry kLlamaFamily = {.id = ModelFamily::kLlama,
                                  .architectures = kArchitectures,
                                  .is_moe = nullptr,
                                  .is_moe_always = false,
                                  .context_parallel = true,
                                  .parse = ParseLlama,
                                  .build = BuildLlama};

}  // namespace infercast
