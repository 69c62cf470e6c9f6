// Fused expert block: what one engine kernel sequence does between two all-reduces.
#include "models/blocks/moe.h"

#include "models/family.h"

namespace infercast {

namespace {

// A 16-bit router has a score an expert; the experts may see a narrower (latent) width.
std::int64_t Experts(const OpList& ops, const MoeSettings& moe) {
  return moe.num_experts.value_or(ops.build().model->num_experts);
}
std::int64_t Topk(const OpList& ops, const MoeSettings& moe) {
  return moe.topk.value_or(ops.build().model->topk);
}
std::int64_t Width(const OpList& ops, const MoeSettings& moe) {
  return moe.hidden_size.value_or(ops.build().model->hidden_size);
}

}  // namespace

void AddRouter(OpList& ops, const MoeSettings& moe) {
  ops.Gemm(moe.prefix + "router_gemm", moe.layers, Experts(ops, moe),
           ops.build().model->hidden_size, GemmQuant::kBfloat16);
}

void AddDispatch(OpList& ops, const MoeSettings& moe, bool pre, std::int64_t scale_num_tokens) {
  const BuildContext& b = ops.build();
  DispatchFlavor flavor = b.backend == Backend::kTrtllm ? DispatchFlavor::kTrtllmAlltoall
                                                        : DispatchFlavor::kCustomAllReduce;
  // An expert kernel that engines no longer price; compiling such a list is an error.
  if (moe.moe_backend == "deepep_moe") flavor = DispatchFlavor::kRetiredDeepEp;
  ops.Add(
      MoeDispatch{.name = ops.Name(moe.prefix + (pre ? "moe_pre_dispatch" : "moe_post_dispatch")),
                  .scale_factor = ops.Scaled(moe.layers),
                  .hidden_size = ops.Wire(Width(ops, moe)),
                  .topk = ops.Wire(Topk(ops, moe)),
                  .num_experts = ops.Wire(Experts(ops, moe)),
                  .moe_tp_size = ops.Wire(b.moe_tp),
                  .moe_ep_size = ops.Wire(b.moe_ep),
                  .attention_dp_size = ops.Wire(b.dp),
                  .pre_dispatch = pre,
                  .attn_ar_modeled = moe.attn_ar_modeled,
                  .backend = b.backend,
                  .flavor = flavor,
                  .comm_quant = CommQuant::kHalf,
                  .moe_quant = moe.dispatch_quant.value_or(moe.quant),
                  .attn_cp_size = ops.Wire(moe.attn_cp_size),
                  .is_context = moe.dispatch_is_context,
                  .sms = ops.Wire(moe.dispatch_sms),
                  .scale_num_tokens = ops.Wire(scale_num_tokens)});
}

void AddExperts(OpList& ops, const MoeSettings& moe) {
  const BuildContext& b = ops.build();
  ops.Add(Moe{.name = ops.Name(moe.prefix + "moe"),
              .scale_factor = ops.Scaled(moe.layers),
              .hidden_size = ops.Wire(Width(ops, moe)),
              .inter_size = ops.Wire(moe.inter_size.value_or(b.model->moe_inter_size)),
              .topk = ops.Wire(Topk(ops, moe)),
              .num_experts = ops.Wire(Experts(ops, moe)),
              .moe_tp_size = ops.Wire(b.moe_tp),
              .moe_ep_size = ops.Wire(b.moe_ep),
              .attention_dp_size = ops.Wire(b.dp),
              .quant_mode = moe.quant,
              .workload_distribution = moe.distribution,
              .is_gated = moe.is_gated,
              .moe_backend = moe.moe_backend,
              .enable_eplb = false,
              .is_context = moe.moe_is_context});
}

void AddRoutedExperts(OpList& ops, const MoeSettings& moe) {
  AddDispatch(ops, moe, /*pre=*/true);
  AddExperts(ops, moe);
  AddDispatch(ops, moe, /*pre=*/false);
}

void AddMoeBlock(OpList& ops, const MoeSettings& moe) {
  AddRouter(ops, moe);
  AddRoutedExperts(ops, moe);
}

}  // namespace infercast
