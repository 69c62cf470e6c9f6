// MiniMax-M3: block-sparse attention with an indexer (measured as one module), routed experts
// beside a shared one; in decode the two overlap.
#include <algorithm>
#include <array>
#include <utility>

#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

// The attention block's own sizes are fixed: 16 blocks of 128 positions are attended, and its
// utilisation is borrowed from the sparse attention of a measured architecture.
template <typename Module>
Module SparseAttention(OpList& ops, double layers) {
  const BuildContext& b = ops.build();
  const ModelConfig& m = *b.model;
  Module module;
  module.name = ops.Name("attention");
  module.scale_factor = ops.Scaled(layers);
  module.num_heads = ops.Wire(std::max<std::int64_t>(1, m.heads / b.tp));
  module.num_kv_heads = ops.Wire(std::max<std::int64_t>(1, m.kv_heads / b.tp));
  module.hidden_size = ops.Wire(m.hidden_size);
  module.head_dim = ops.Wire(m.head_dim);
  module.v_head_dim = 128;
  module.index_n_heads = 4;
  module.index_head_dim = 128;
  module.index_topk = 2048;
  module.block_size = 128;
  module.kv_cache_dtype = b.quant.kv;
  module.fmha_quant_mode = b.quant.fmha;
  module.gemm_quant_mode = b.quant.gemm;
  module.dsa_architecture = "GlmMoeDsaForCausalLM";
  module.dsa_scale_k = 1.0;
  return module;
}

void AddSharedExpert(OpList& ops, double layers) {
  const BuildContext& b = ops.build();
  MlpBlock shared = GatedMlp(layers, b.model->moe_inter_size, b.tp, b.quant.gemm);
  shared.up = "shared_gate_up_gemm";
  shared.act = "shared_act_gate";
  shared.down = "shared_ffn2_gemm";
  shared.low_precision_down = false;
  AddMlpBlock(ops, shared);
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase) {
  const ModelConfig& m = *b.model;
  const double L = static_cast<double>(b.L);
  OpList ops(b, phase);
  MoeSettings moe;
  moe.layers = L;
  moe.quant = b.quant.moe;
  moe.distribution = b.Distribution("1.01");

  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  ops.Norm("add_norm_1", L);
  if (phase == Phase::kContext) {
    ops.Add(SparseAttention<MsaContext>(ops, L));
  } else {
    ops.Add(SparseAttention<MsaGeneration>(ops, L));
  }
  ops.Norm("add_norm_2", L);
  if (phase == Phase::kContext) {
    AddSharedExpert(ops, L);
    AddMoeBlock(ops, moe);
  } else {
    OpList routed = ops.Sub();
    OpList shared = ops.Sub();
    AddMoeBlock(routed, moe);
    AddSharedExpert(shared, L);
    ops.Overlap("moe_overlap", std::move(routed), std::move(shared));
  }
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  ops.PipelineHandOver();
  return std::move(ops).Take();
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckNoLargeExpertParallelism(b));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  FamilyPlan plan;
  plan.kv = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration));
  return plan;
}

constexpr std::array<Architecture, 2> kArchitectures = {
    {{"MiniMaxM3ForCausalLM"}, {"MiniMaxM3SparseForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kMinimaxM3Family = {.id = ModelFamily::kMinimaxM3,
                                      .architectures = kArchitectures,
                                      .is_moe = nullptr,
                                      .is_moe_always = true,
                                      .context_parallel = false,
                                      .parse = nullptr,
                                      .build = Build};

}  // namespace infercast
