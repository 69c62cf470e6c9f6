// Dense decoders of the GPT kind: an ungated feed-forward, a replicated embedding, and attention
// kernels that are always priced at 128-wide heads.
#include <utility>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/families.h"

namespace infercast {

namespace {

constexpr std::int64_t kKernelHeadDim = 128;

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const KvLayout& kv) {
  const ModelConfig& m = *b.model;
  const double L = static_cast<double>(b.L);
  const std::int64_t kv_heads = b.KvHeadsPerGpu();
  OpList ops(b, phase, b.cp);

  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  AttentionBlock attention;
  attention.layers = L;
  attention.qkv_width = QkvWidth(m.heads, m.head_dim, kv_heads, b.tp);
  attention.proj_input = m.heads * m.head_dim / b.tp;
  attention.heads = {.heads = m.heads / b.tp, .kv_heads = kv_heads, .head_dim = kKernelHeadDim};
  attention.quant = b.quant.gemm;
  attention.kv_gather_elements = ContextKvGather(b, phase, kv);
  AddAttentionBlock(ops, attention);
  ops.Norm("add_norm_2", L);
  MlpBlock mlp;
  mlp.layers = L;
  mlp.up = "ffn1_gemm";
  mlp.act = "act";
  mlp.up_width = m.inter_size / b.tp;
  mlp.down_input = m.inter_size / b.tp;
  mlp.quant = b.quant.gemm;
  AddMlpBlock(ops, mlp);
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.AllReduce("ar_1", L);
  ops.AllReduce("ar_2", L);
  ops.PipelineHandOver();
  return std::move(ops).Take();
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckNoDraft(b));
  FamilyPlan plan;
  plan.kv = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, plan.kv));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, plan.kv));
  return plan;
}

}  // namespace

const FamilyEntry kGptFamily = {.id = ModelFamily::kGpt,
                                .architectures = {},
                                .is_moe = nullptr,
                                .is_moe_always = false,
                                .context_parallel = true,
                                .parse = nullptr,
                                .build = Build};

}  // namespace infercast
