// Operation and byte counts of DeepSeek-V4 attention modules.
#include "operators/dsv4_roofline.h"

#include <algorithm>

namespace infercast {

namespace {

constexpr std::uint32_t kDefaultWindow = 128;

// Attended tokens of a causal window of l tokens, summed over q new tokens after p cached ones.
Int128 WindowTokens(Int128 b, Int128 q, Int128 p, Int128 l) {
  if (l <= 0 || q <= 0) return 0;
  const Int128 full = p + q;
  if (p >= l) return b * q * l;
  if (full <= l) return b * (full * (full + 1) - p * (p + 1)) / 2;
  return b * (l * (l + 1) - p * (p + 1)) / 2 + b * (full - l) * l;
}

// Sum of floor(i / r) for i = 0 .. n.
Int128 SumOfQuotients(Int128 n, Int128 r) {
  if (n < 0) return 0;
  const Int128 a = n / r;
  const Int128 c = n % r;
  return r * a * (a - 1) / 2 + a * (c + 1);
}

// Attended compressed tokens, at most l of them per query, summed like WindowTokens.
Int128 CompressedTokens(Int128 b, Int128 q, Int128 p, Int128 r, Int128 l) {
  if (r <= 0 || q <= 0 || l <= 0) return 0;
  const Int128 first = p + 1;
  const Int128 last = p + q;
  const Int128 saturation = l * r;
  if (last < saturation) return b * (SumOfQuotients(last, r) - SumOfQuotients(first - 1, r));
  if (first >= saturation) return b * q * l;
  return b * (SumOfQuotients(saturation - 1, r) - SumOfQuotients(first - 1, r) +
              (last - saturation + 1) * l);
}

}  // namespace

Result<Dsv4Roofline> Dsv4Roofline::Of(const Dsv4Module& op, bool context, const Database& db) {
  const SystemSpec& system = db.system();
  FmhaQuant fmha = op.fmha_quant_mode;
  if (!context) {
    // Decode kernels compute in the format of the cache where the GPU can.
    const bool fp8 = op.kv_cache_dtype == KvQuant::kFp8 && system.sm_version.value_or(0) >= 89;
    fmha = fp8 ? FmhaQuant::kFp8 : FmhaQuant::kBfloat16;
  }
  const QuantProfile gemm = Profile(op.gemm_quant_mode);

  Dsv4Roofline r;
  r.context_ = context;
  IC_ASSIGN(r.gemm_flops_, system.TensorCoreFlops(gemm.dtype));
  IC_ASSIGN(r.bf16_flops_, system.TensorCoreFlops(ComputeDtype::kBfloat16));
  IC_ASSIGN(r.fp8_flops_, system.TensorCoreFlops(ComputeDtype::kFp8));
  IC_ASSIGN(r.fmha_flops_, system.TensorCoreFlops(Profile(fmha).dtype));
  r.bandwidth_ = system.mem_bw;

  const bool indexed = op.attn_kind == Dsv4AttentionKind::kCsa;
  const Int128 H = op.hidden_size, Q = op.q_lora_rank, O = op.o_lora_rank, hd = op.head_dim;
  const Int128 inh = op.index_n_heads, ihd = op.index_head_dim, nh = op.num_heads;
  const Int128 streams = indexed ? 2 : 1;  // compressed keys of both neighbouring blocks
  std::uint32_t groups = op.o_groups.value_or(0);
  if (!op.o_groups) {
    const std::uint32_t shards =
        std::max<std::uint32_t>(128 / std::max<std::uint32_t>(op.num_heads, 1), 1);
    groups = 16 / shards;
  }
  const Int128 G = std::max<std::uint32_t>(groups, 1);

  r.ratio_ = indexed ? 4 : 128;
  r.top_k_ = op.index_topk;
  r.window_ = op.window_size.value_or(kDefaultWindow);
  r.heads_width_ = nh * hd;

  r.projection_ops_ = 2 * H * Q + 2 * Q * nh * hd + 2 * H * hd + 2 * G * O * H +
                      4 * H * streams * hd + 2 * streams * hd;
  if (indexed) r.projection_ops_ += 8 * H * ihd + 4 * ihd;
  r.output_ops_ = 2 * nh * hd * O;
  if (indexed) {
    r.indexer_query_ops_ = 2 * Q * inh * ihd;
    r.indexer_key_ops_ = 2 * inh * ihd;
    r.indexer_weight_ops_ = 2 * H * inh;
  }

  const auto real = [](Int128 v) { return static_cast<double>(v); };
  r.gemm_bytes_ = gemm.memory;
  r.weight_bytes_ = real(H * Q + Q * nh * hd + H * hd + G * O * H) * gemm.memory +
                    real(2 * H * streams * hd) * gemm.memory;
  if (indexed) r.weight_bytes_ += real(Q * inh * ihd) * gemm.memory;
  r.weight_bytes_ += real(2 * nh * hd * O);
  if (indexed) r.weight_bytes_ += real(2 * H * inh);
  r.activation_width_ = H + Q + nh * hd + hd + G * O;
  r.kv_row_ = real(hd);
  r.kv_bytes_ = Profile(op.kv_cache_dtype).memory;
  r.index_row_bytes_ = indexed ? real(ihd) * 0.5 : 0.0;
  r.rope_width_ = nh * op.rope_head_dim;
  r.fmha_bytes_ = Profile(fmha).memory;
  return r;
}

double Dsv4Roofline::Milliseconds(double batch, double sequence, double past) const {
  const Int128 b = static_cast<Int128>(batch);
  const Int128 s = static_cast<Int128>(sequence);
  const Int128 p = context_ ? static_cast<Int128>(past) : 0;
  const Int128 t = context_ ? b * s : b;
  const Int128 length = context_ ? p + s : std::max<Int128>(s - 1, 0);
  const bool indexed = ratio_ == 4;
  const Int128 limit = indexed ? top_k_ : length / 128;
  const Int128 window = context_ ? WindowTokens(b, s, p, window_) : b * std::min(length, window_);
  const Int128 compressed =
      context_ ? CompressedTokens(b, s, p, ratio_, limit) : b * std::min(length / ratio_, limit);
  const Int128 blocks = indexed ? length / 4 : 0;

  const auto real = [](Int128 v) { return static_cast<double>(v); };
  const double math = (real(t * projection_ops_) / gemm_flops_ +
                       real(t * (output_ops_ + indexer_weight_ops_)) / bf16_flops_ +
                       real(t * indexer_query_ops_ + t * blocks * indexer_key_ops_) / fp8_flops_ +
                       real(4 * heads_width_ * (window + compressed)) / fmha_flops_) *
                      1000.0;
  const double bytes = weight_bytes_ + real(t * activation_width_) * gemm_bytes_ +
                       real(window + compressed) * kv_row_ * kv_bytes_ +
                       real(b * blocks) * index_row_bytes_ + real(t * rope_width_) * fmha_bytes_;
  return std::max(math, bytes / bandwidth_ * 1000.0);
}

}  // namespace infercast
