// Expert block under large expert parallelism: the communication library's own phases around the
// expert computation of one rank.
#include "models/large_ep.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/family.h"

namespace infercast {

namespace {

bool IsDeepEp(std::string_view library) { return library.starts_with("deepep"); }

// Families whose SGLang large-EP path folds the router into the experts' kernels.
bool DropsRouter(const BuildContext& b, std::string_view library) {
  return b.backend == Backend::kSglang && IsDeepEp(library) &&
         (b.model->family_id() == ModelFamily::kDeepseek ||
          b.model->family_id() == ModelFamily::kDeepseekV32);
}

}  // namespace

Status CheckGpusPerNode(const BuildContext& b) {
  if (!b.options->moe_comm.any()) return {};
  if (!b.options->gpus_per_node) {
    return Fail(ErrorKind::kInvalidArgument,
                "an expert communication library is set but the GPUs per node are not");
  }
  if (*b.options->gpus_per_node <= 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("GPUs per node must be positive, got {}", *b.options->gpus_per_node));
  }
  return {};
}

Status CheckTrtllmLargeEp(const BuildContext& b) {
  const std::int64_t experts = b.model->num_experts;
  const std::int64_t asked = b.options->expert_slots.value_or(0);
  const std::int64_t slots = asked != 0 ? asked : experts;
  if (b.dp <= 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("large expert parallelism on TensorRT-LLM needs attention data "
                            "parallelism above 1, got {}",
                            b.dp));
  }
  if (b.moe_ep <= 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("large expert parallelism needs moe_ep above 1, got {}", b.moe_ep));
  }
  if (slots < experts) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} expert slots cannot hold {} experts", slots, experts));
  }
  if (!b.options->enable_eplb && slots != experts) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("without expert load balancing the expert slots ({}) must equal the "
                            "experts ({})",
                            slots, experts));
  }
  return {};
}

Status AddLargeEpBlock(OpList& ops, const MoeSettings& moe, const LargeEpShared& shared) {
  const BuildContext& b = ops.build();
  const BuildOptions& o = *b.options;
  const bool ctx = ops.is_context();
  const std::string library =
      ctx ? o.moe_comm.context.value_or("") : o.moe_comm.generation.value_or("");
  IC_ASSIGN(const MoeCommLibrary* const entry, FindMoeCommLibrary(library));
  const bool deepep = IsDeepEp(library);
  const bool trtllm = b.backend == Backend::kTrtllm;
  const std::int64_t experts = moe.num_experts.value_or(b.model->num_experts);
  const std::int64_t inter = moe.inter_size.value_or(b.model->moe_inter_size);
  const std::int64_t h = moe.hidden_size.value_or(b.model->hidden_size);
  const std::int64_t topk = moe.topk.value_or(b.model->topk);
  const std::int64_t gpus_per_node = o.gpus_per_node.value_or(1);
  const std::int64_t nodes = (b.moe_ep * b.moe_tp + gpus_per_node - 1) / gpus_per_node;

  OpList router = ops.Sub();
  if (!DropsRouter(b, library)) AddRouter(router, moe);

  // Shared experts run whole on every rank: their tokens, not their weights, are split.
  OpList shared_ops = ops.Sub();
  if (shared.experts > 0) {
    if (trtllm || !ctx) shared_ops.set_seq_split(1);
    MlpBlock block = GatedMlp(
        moe.layers, shared.experts * (shared.inter > 0 ? shared.inter : inter), 1, shared.quant);
    block.prefix = moe.prefix;
    block.low_precision_down = false;
    if (trtllm) {
      block.up = "shared_gate_up_gemm";
      block.act = "shared_act_gate";
      block.down = "shared_ffn2_gemm";
    } else if (ctx) {
      block.scale_num_tokens = b.tp;
    }
    AddMlpBlock(shared_ops, block);
  }

  const auto exchange = [&](OpList& list, std::string_view phase) -> Status {
    IC_ASSIGN(std::string dtype, MoeCommDtype(library, phase == "combine" ? "combine" : "dispatch",
                                              ctx, moe.quant, o.system));
    list.Add(MoeAllToAll{.name = list.Name(moe.prefix + "moe_" + std::string(phase)),
                         .scale_factor = list.Scaled(moe.layers),
                         .phase = std::string(phase),
                         .comm_backend = library,
                         .comm_dtype = std::move(dtype),
                         .hidden_size = list.Wire(h),
                         .topk = list.Wire(topk),
                         .num_experts = list.Wire(experts),
                         .moe_ep_size = list.Wire(b.moe_ep),
                         .node_num = list.Wire(nodes),
                         .sms = list.Wire(library == "deepep_ht" ? o.sms : 0),
                         .attention_tp_size = list.Wire(deepep && ctx ? b.tp * b.cp : 1)});
    return {};
  };

  OpList routed = ops.Sub();
  for (const std::string_view phase : entry->comm_phases) {
    if (phase != "combine") IC_RETURN_IF_ERROR(exchange(routed, phase));
  }
  const std::int64_t slots = o.expert_slots.value_or(0);
  routed.Add(MoeExpertCompute{.name = routed.Name(moe.prefix + "moe"),
                              .scale_factor = routed.Scaled(moe.layers),
                              .hidden_size = routed.Wire(h),
                              .inter_size = routed.Wire(inter),
                              .topk = routed.Wire(topk),
                              .num_experts = routed.Wire(experts),
                              .moe_ep_size = routed.Wire(b.moe_ep),
                              .quant_mode = moe.quant,
                              .workload_distribution = moe.distribution,
                              .attention_dp_size = routed.Wire(b.dp),
                              .inference_phase = std::string(PhaseName(ops.phase())),
                              .num_slots = routed.Wire(slots != 0 ? slots : experts),
                              .kernel_source = std::nullopt,
                              .is_gated = true,
                              .enable_eplb = o.enable_eplb && deepep});
  IC_RETURN_IF_ERROR(exchange(routed, "combine"));

  if (trtllm && !ctx && shared.experts > 0) {
    router.Append(std::move(routed));
    ops.Overlap(moe.prefix + "moe_overlap", std::move(router), std::move(shared_ops));
  } else {
    ops.Append(std::move(router));
    ops.Append(std::move(shared_ops));
    ops.Append(std::move(routed));
  }
  if (trtllm && shared.experts > 0) {
    OpList reduce = ops.Sub();
    reduce.set_seq_split(1);
    reduce.Elementwise(moe.prefix + "moe_reduce_add", moe.layers, 2 * h, h);
    ops.Append(std::move(reduce));
  }
  return {};
}

}  // namespace infercast
