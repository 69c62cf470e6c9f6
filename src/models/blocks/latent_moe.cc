// Experts of the DeepSeek kind.
#include "models/blocks/latent_moe.h"

#include <utility>

#include "models/blocks/mlp.h"

namespace infercast {

namespace {

void AddSharedExpert(OpList& ops, double layers, GemmQuant quant, std::int64_t shards) {
  MlpBlock shared = GatedMlp(layers, ops.build().model->moe_inter_size, shards, quant);
  shared.up = "shared_gate_up_gemm";
  shared.act = "shared_act_gate";
  shared.down = "shared_ffn2_gemm";
  shared.low_precision_down = false;
  AddMlpBlock(ops, shared);
}

// Load balancing flattens the token-to-expert distribution; how, differs by backend.
std::string LargeEpDistribution(const BuildContext& b, bool context) {
  if (b.backend == Backend::kTrtllm) {
    return b.Distribution("1.01", b.options->enable_eplb ? "_eplb" : "");
  }
  return b.Distribution(context && b.options->enable_eplb ? "0.6" : "1.01");
}

}  // namespace

void AddSharedAndRoutedExperts(OpList& ops, double layers, GemmQuant shared_quant,
                               std::int64_t shared_shards) {
  const BuildContext& b = ops.build();
  MoeSettings moe;
  moe.layers = layers;
  moe.quant = b.quant.moe;
  moe.distribution = b.Distribution("1.01");
  moe.attn_cp_size = b.cp;
  moe.dispatch_is_context = ops.is_context();
  if (ops.is_context()) {
    AddSharedExpert(ops, layers, shared_quant, shared_shards);
    AddMoeBlock(ops, moe);
    return;
  }
  OpList routed = ops.Sub();
  OpList shared = ops.Sub();
  AddMoeBlock(routed, moe);
  AddSharedExpert(shared, layers, shared_quant, shared_shards);
  ops.Overlap("moe_overlap", std::move(routed), std::move(shared));
}

Status AddLargeEpExperts(OpList& ops, double layers, GemmQuant shared_quant) {
  const BuildContext& b = ops.build();
  const std::int64_t outer_split = ops.seq_split();
  const bool context = ops.is_context();
  ops.set_seq_split(context ? b.cp : 1);
  MoeSettings moe;
  moe.layers = layers;
  moe.quant = b.quant.moe;
  moe.distribution = LargeEpDistribution(b, context);
  moe.attn_cp_size = ops.seq_split();
  const MoeCommBackends& libraries = b.options->moe_comm;
  if (context ? libraries.context : libraries.generation) {
    IC_RETURN_IF_ERROR(AddLargeEpBlock(ops, moe, {.experts = 1, .quant = shared_quant}));
  } else {
    AddRouter(ops, moe);
    AddSharedExpert(ops, layers, shared_quant, b.tp);
    AddRoutedExperts(ops, moe);
  }
  ops.set_seq_split(outer_split);
  return {};
}

KvLayout LatentKv(const BuildContext& b, std::int64_t latent, std::int64_t rotary) {
  KvLayout kv;
  kv.elements_per_token = static_cast<double>(b.L * (latent + rotary));
  kv.terms.push_back({.bytes = b.KvBytesPerElement() * kv.elements_per_token});
  return kv;
}

}  // namespace infercast
