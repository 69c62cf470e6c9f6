// Resident weight bytes per operator kind: shapes times bytes per element, multiplied by the layer
// count. Kinds without weights of their own (attention, communication, recurrent kernels,
// memory-bound kernels) hold none.
#include <algorithm>
#include <cmath>

#include "operators/bound_operator.h"

namespace infercast {
namespace {

double SumOf(const std::vector<Operator>& ops) {
  double sum = 0;
  for (const Operator& op : ops) sum += WeightBytes(op);
  return sum;
}

// Expert weights of one rank: split over expert parallelism first, then over tensor parallelism,
// rounded down at each split.
double ExpertBytes(double hidden, double inter, double experts, MoeQuant quant, double matrices) {
  return hidden * inter * experts * Profile(quant).memory * matrices;
}

double Bytes(const Gemm& op) {
  return static_cast<double>(op.n) * op.k * Profile(op.quant_mode).memory * op.scale_factor;
}
double Bytes(const Embedding& op) {
  return static_cast<double>(op.vocab_size) * op.hidden_size * Profile(op.quant_mode).memory *
         op.scale_factor;
}
double Bytes(const Moe& op) {
  const double all = ExpertBytes(op.hidden_size, op.inter_size, op.num_experts, op.quant_mode,
                                 op.is_gated ? 3.0 : 2.0);
  return std::floor(std::floor(all / op.moe_ep_size) / op.moe_tp_size) * op.scale_factor;
}
double Bytes(const Dsv4MegaMoe& op) {
  const double all = ExpertBytes(op.hidden_size, op.inter_size, op.num_experts, op.quant_mode, 3.0);
  return std::floor(std::floor(all / op.moe_ep_size) / op.moe_tp_size) * op.scale_factor;
}
double Bytes(const MoeExpertCompute& op) {
  const double all = ExpertBytes(op.hidden_size, op.inter_size, op.num_experts, op.quant_mode,
                                 op.is_gated ? 3.0 : 2.0);
  return std::floor(all / op.moe_ep_size) * op.scale_factor;
}

// Projections and indexer of a sparse-attention block; the sizes follow from the architecture.
double Bytes(const DsaModule& op) {
  const bool glm = op.architecture == "GlmMoeDsaForCausalLM";
  const double hidden = glm ? 6144 : 7168;
  const double q_rank = glm ? 2048 : 1536;
  const double kv_rank = 512;
  const double nope = glm ? 192 : 128;
  const double rope = 64;
  const double v_dim = glm ? 256 : 128;
  const double index_dim = 128;
  const double index_heads = glm ? 32 : 64;
  const double heads = op.num_heads;
  const double head_dim = nope + rope;

  const GemmQuant base = op.gemm_quant_mode;
  const DsaProjectionQuants quants =
      op.attn_projection_quant_modes.value_or(DsaProjectionQuants{base, base, base, base});
  const double bytes =
      (hidden * q_rank + q_rank * heads * head_dim) * Profile(quants.q).memory +
      (hidden * (kv_rank + rope) + kv_rank * heads * (nope + v_dim)) * Profile(quants.kv).memory +
      heads * v_dim * hidden * Profile(quants.o).memory +
      (q_rank * index_dim * index_heads + hidden * index_heads) * Profile(quants.indexer).memory;
  return bytes * op.scale_factor;
}

// Projections in the GEMM format, the compressors and routers in 16 and 32 bits.
double Bytes(const Dsv4Module& op) {
  const bool csa = op.attn_kind == Dsv4AttentionKind::kCsa;
  const double ratio = csa ? 4 : 128;
  const double paths = csa ? 2 : 1;
  const double hidden = op.hidden_size;
  const double heads = op.num_heads;
  const double q_rank = op.q_lora_rank;
  const double o_rank = op.o_lora_rank;
  const double head_dim = op.head_dim;
  const double index_heads = op.index_n_heads;
  const double index_dim = op.index_head_dim;
  const std::uint32_t shards =
      std::max<std::uint32_t>(1, 128 / std::max<std::uint32_t>(1, op.num_heads));
  const double groups = std::max<std::uint32_t>(1, op.o_groups.value_or(16 / shards));

  double gemm = hidden * q_rank + q_rank * heads * head_dim + hidden * head_dim +
                groups * o_rank * hidden + 2 * hidden * paths * head_dim;
  double half = heads * head_dim * o_rank;
  double single = heads + ratio * paths * head_dim;
  if (csa) {
    gemm += q_rank * index_heads * index_dim + 4 * hidden * index_dim;
    half += hidden * index_heads;
    single += 8 * index_dim;
  }
  return (gemm * Profile(op.gemm_quant_mode).memory + 2 * half + 4 * single) * op.scale_factor;
}

double Bytes(const Mhc& op) {
  const double width = static_cast<double>(op.hc_mult) * op.hidden_size;
  const double mixes = (2.0 + op.hc_mult) * op.hc_mult;
  return 2 * (mixes * width + mixes + 3) * Profile(op.quant_mode).memory * op.scale_factor;
}
double Bytes(const Overlap& op) { return SumOf(op.group_a) + SumOf(op.group_b); }
double Bytes(const Fallback& op) {
  const double primary = WeightBytes(*op.primary);
  return primary > 0 ? primary : SumOf(op.fallback);
}
double Bytes(const FpmForward& op) { return op.weight_bytes; }

template <typename T>
concept HasWeights = requires(const T& op) { Bytes(op); };

}  // namespace

double WeightBytes(const Operator& op) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (HasWeights<std::decay_t<decltype(kind)>>) {
          return Bytes(kind);
        } else {
          return 0.0;
        }
      },
      op.kind);
}

}  // namespace infercast
