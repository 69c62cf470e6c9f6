#include "serving/afd_partition.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "operators/bound_operator.h"

namespace infercast {

namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 7> kCollectives = {
    "_p2p", "_ar", "all_reduce", "allreduce", "tp_all_gather", "tp_reduce_scatter", "dispatch"};
constexpr std::array<std::string_view, 2> kRecurrent = {"mamba", "gdn"};
constexpr std::array<std::string_view, 7> kBoundary = {"logits_gemm",    "reduce_add", "add_norm_2",
                                                       "_ffn_norm",      "_moe_norm",  "_mlp_norm",
                                                       "_dense_ffn_norm"};
constexpr std::array<std::string_view, 12> kAttention = {
    "embedding", "add_norm_1", "_attn_norm",     "attention", "qkv", "q_a_layernorm",
    "q_b_proj",  "kv_b_proj",  "downscale_gemm", "mla",       "bmm", "rope"};
constexpr std::array<std::string_view, 3> kFfnProjections = {"down_proj_gemm", "up_proj_gemm",
                                                             "gate_proj_gemm"};
constexpr std::array<std::string_view, 16> kFfn = {
    "router",  "moe",      "ffn",     "mlp",       "shared",    "expert",  "act_gate",  "_act",
    "gate_up", "gate_ffn", "up_gemm", "down_gemm", "down_proj", "up_proj", "gate_proj", "relu"};

bool HasAny(std::string_view name, Words words) {
  for (const std::string_view word : words) {
    if (name.find(word) != std::string_view::npos) return true;
  }
  return false;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Rules in order of precedence.
Result<std::optional<AfdSide>> SideOfNamed(const Operator& op, bool boundary_on_attention) {
  const std::string name = Lower(op.name());
  if (std::holds_alternative<CustomAllReduce>(op.kind) || std::holds_alternative<P2P>(op.kind) ||
      std::holds_alternative<Nccl>(op.kind) || HasAny(name, kCollectives)) {
    return std::nullopt;
  }
  if (HasAny(name, kRecurrent)) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("operator '{}' is a recurrent layer, which cannot be split into "
                            "attention and FFN nodes",
                            op.name()));
  }
  if (HasAny(name, kBoundary) || name.ends_with("_combine")) {
    return boundary_on_attention ? AfdSide::kAttention : AfdSide::kFfn;
  }
  const bool output_projection =
      name.find("proj_gemm") != std::string::npos && !HasAny(name, kFfnProjections);
  if (HasAny(name, kAttention) || output_projection) return AfdSide::kAttention;
  if (HasAny(name, kFfn)) return AfdSide::kFfn;
  return Fail(ErrorKind::kUnsupportedModel,
              fmt::format("operator '{}' is neither known as attention nor as FFN, so the model "
                          "cannot be split into attention and FFN nodes",
                          op.name()));
}

// Sides of a group's members, nested groups included.
Status Collect(std::span<const Operator> ops, bool boundary_on_attention, bool& attention,
               bool& ffn) {
  for (const Operator& op : ops) {
    if (const auto* overlap = std::get_if<Overlap>(&op.kind);
        overlap != nullptr && !(overlap->group_a.empty() && overlap->group_b.empty())) {
      IC_RETURN_IF_ERROR(Collect(overlap->group_a, boundary_on_attention, attention, ffn));
      IC_RETURN_IF_ERROR(Collect(overlap->group_b, boundary_on_attention, attention, ffn));
      continue;
    }
    IC_ASSIGN(const std::optional<AfdSide> side, SideOfNamed(op, boundary_on_attention));
    if (side) (*side == AfdSide::kAttention ? attention : ffn) = true;
  }
  return {};
}

}  // namespace

Result<std::optional<AfdSide>> SideOf(const Operator& op, bool boundary_on_attention) {
  const auto* overlap = std::get_if<Overlap>(&op.kind);
  if (overlap == nullptr || (overlap->group_a.empty() && overlap->group_b.empty())) {
    return SideOfNamed(op, boundary_on_attention);
  }
  // Overlapped operators share their time, so the group stays whole: communication inside it is
  // priced with it.
  bool attention = false;
  bool ffn = false;
  IC_RETURN_IF_ERROR(Collect(std::span(&op, 1), boundary_on_attention, attention, ffn));
  if (attention != ffn) return attention ? AfdSide::kAttention : AfdSide::kFfn;
  return Fail(ErrorKind::kUnsupportedModel,
              attention ? fmt::format("the overlapped operators of '{}' span attention and FFN "
                                      "nodes and cannot be split",
                                      op.name())
                        : fmt::format("the overlapped operators of '{}' belong neither to "
                                      "attention nor to FFN nodes",
                                      op.name()));
}

Result<AfdPartition> PartitionOperators(std::span<const Operator> ops, bool boundary_on_attention) {
  AfdPartition partition;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    IC_ASSIGN(const std::optional<AfdSide> side, SideOf(ops[i], boundary_on_attention));
    if (!side) continue;
    (*side == AfdSide::kAttention ? partition.attention : partition.ffn).push_back(i);
  }
  return partition;
}

double WeightBytesAt(std::span<const Operator> ops, std::span<const std::size_t> positions) {
  double bytes = 0;
  for (const std::size_t i : positions) bytes += WeightBytes(ops[i]);
  return bytes;
}

}  // namespace infercast
