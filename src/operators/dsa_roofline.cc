// Operation and byte counts of a sparse-attention block.
#include "operators/dsa_roofline.h"

namespace infercast::latent {

Result<BlockRates> BlockRates::Of(const SystemSpec& system, GemmQuant gemm, KvQuant kv,
                                  FmhaQuant fmha) {
  BlockRates rates;
  rates.gemm_bytes = Profile(gemm).memory;
  rates.kv_bytes = Profile(kv).memory;
  rates.fmha_bytes = Profile(fmha).memory;
  rates.bandwidth = system.mem_bw;
  IC_ASSIGN(rates.gemm_flops, system.TensorCoreFlops(Profile(gemm).dtype));
  IC_ASSIGN(rates.indexer_flops, system.TensorCoreFlops(ComputeDtype::kFp8));
  IC_ASSIGN(rates.fmha_flops, system.TensorCoreFlops(Profile(fmha).dtype));
  return rates;
}

// The matrix that absorbs the latent is counted as work below, not as weights.
Count DsaRoofline::Weights(Count n) const {
  const DsaShape& d = shape;
  const Count down = Count{d.q_rank} + d.kv_rank + d.rope + d.index_dim;
  return d.hidden * down + d.q_rank * n * (d.nope + d.rope) +
         Count{d.q_rank} * d.index_heads * d.index_dim + Count{d.hidden} * d.index_heads +
         n * d.v * d.hidden;
}

Count DsaRoofline::Projections(Count n, Count tokens) const {
  const DsaShape& d = shape;
  return 2 * tokens * Weights(n) + 2 * n * tokens * d.nope * d.kv_rank +
         2 * n * tokens * d.kv_rank * d.v;
}

Roof DsaRoofline::Context(std::uint64_t n, std::uint64_t b, std::uint64_t s,
                          std::uint64_t p) const {
  const DsaShape& d = shape;
  const Count tokens = Count{b} * s;
  const Count full = Count{s} + p;
  const Count key_dim = d.kv_rank + 64;
  const bool scores = has_indexer && full > window;
  const Count scoring = scores ? 2 * tokens * d.index_heads * d.index_dim * full : 0;
  const Count attention = 2 * Count{n} * (key_dim + d.kv_rank) * WindowedPairs(b, s, p, window);
  const Count index_entry = d.index_dim + 4 * ((d.index_dim + 127) / 128);
  const Count kept = std::min<Count>(full, window);
  const double bytes = ToDouble(Weights(n)) * rates.gemm_bytes +
                       ToDouble(Count{b} * n * kept * key_dim) * rates.kv_bytes +
                       (scores ? ToDouble(b * full * index_entry) : 0.0) +
                       ToDouble(tokens * n * (d.nope + d.rope)) * rates.fmha_bytes * 2.0;
  return {(ToDouble(Projections(n, tokens)) / rates.gemm_flops +
           ToDouble(scoring) / rates.indexer_flops + ToDouble(attention) / rates.fmha_flops) *
              1000.0,
          bytes / rates.bandwidth * 1000.0};
}

Roof DsaRoofline::Generation(std::uint64_t n, std::uint64_t b, std::uint64_t s) const {
  const DsaShape& d = shape;
  const Count key_dim = d.kv_rank + 64;
  const Count kept = std::min<Count>(s, d.topk);
  const Count scoring = 2 * Count{b} * d.index_heads * d.index_dim * s;
  const Count attention = 2 * Count{b} * n * (key_dim + d.kv_rank) * kept;
  const Count index_entry = d.index_dim + 4 * ((d.index_dim + 127) / 128);
  const double bytes = ToDouble(Weights(n)) * rates.gemm_bytes +
                       ToDouble(Count{b} * s * index_entry) +
                       ToDouble(Count{b} * kept * key_dim) * rates.kv_bytes;
  return {(ToDouble(Projections(n, b)) / rates.gemm_flops +
           ToDouble(scoring) / rates.indexer_flops + ToDouble(attention) / rates.fmha_flops) *
              1000.0,
          bytes / rates.bandwidth * 1000.0};
}

}  // namespace infercast::latent
