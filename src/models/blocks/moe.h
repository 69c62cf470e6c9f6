// The expert half of a decoder layer: router, token exchange, routed experts, shared experts; and
// the same under large expert parallelism, where a named all-to-all library moves the tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "models/op_list.h"

namespace infercast {

// What is routed and how; absent sizes are the model's.
struct MoeSettings {
  std::string prefix;  // in front of the block's names, e.g. "global_"
  double layers = 0;
  MoeQuant quant{};
  std::optional<MoeQuant> dispatch_quant;  // absent: as the experts
  std::string distribution;
  std::optional<std::int64_t> hidden_size;  // width the experts see
  std::optional<std::int64_t> inter_size;
  std::optional<std::int64_t> topk;
  std::optional<std::int64_t> num_experts;
  std::int64_t attn_cp_size = 1;
  bool is_gated = true;
  bool dispatch_is_context = true;
  bool moe_is_context = true;
  bool attn_ar_modeled = false;
  std::int64_t dispatch_sms = 12;
  std::optional<std::string> moe_backend;
};

// Token-to-expert scores; always 16-bit.
void AddRouter(OpList& ops, const MoeSettings& moe);
void AddDispatch(OpList& ops, const MoeSettings& moe, bool pre, std::int64_t scale_num_tokens = 1);
void AddExperts(OpList& ops, const MoeSettings& moe);
// pre-dispatch, experts, post-dispatch.
void AddRoutedExperts(OpList& ops, const MoeSettings& moe);
// router and routed experts: the fused block without shared experts.
void AddMoeBlock(OpList& ops, const MoeSettings& moe);

// Shared experts inside a large-expert-parallelism block.
struct LargeEpShared {
  std::int64_t experts = 0;
  std::int64_t inter = 0;  // width of one; 0: as a routed expert
  GemmQuant quant{};
};

// The block under large expert parallelism. kInvalidArgument when the communication library is
// unknown or has no number format for this model and phase.
Status AddLargeEpBlock(OpList& ops, const MoeSettings& moe, const LargeEpShared& shared);

// GPUs per node must be known and positive where a communication library is set.
Status CheckGpusPerNode(const BuildContext& build);
// What TensorRT-LLM additionally demands of large expert parallelism.
Status CheckTrtllmLargeEp(const BuildContext& build);

}  // namespace infercast
