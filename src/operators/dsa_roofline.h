// Speed-of-light time of a sparse-attention block: projections, the indexer that scores every
// cached token, and attention over the tokens it keeps.
//
// Counts are exact integers (they exceed 2^53) and become binary64 once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"
#include "hardware/system_spec.h"
#include "operators/latent_roofline.h"

namespace infercast::latent {

__extension__ using Count = unsigned __int128;

constexpr double ToDouble(Count count) { return static_cast<double>(count); }

// Dimensions of an architecture's block.
struct DsaShape {
  std::uint64_t hidden;
  std::uint64_t q_rank;
  std::uint64_t kv_rank;
  std::uint64_t nope;
  std::uint64_t rope;
  std::uint64_t v;
  std::uint64_t topk;
  std::uint64_t index_dim;
  std::uint64_t index_heads;

  // Every architecture but GLM's has DeepSeek-V3.2's dimensions.
  static constexpr DsaShape Of(std::string_view architecture) {
    if (architecture == "GlmMoeDsaForCausalLM") {
      return {6144, 2048, 512, 192, 64, 256, 2048, 128, 32};
    }
    return {7168, 1536, 512, 128, 64, 128, 2048, 128, 64};
  }
};

// Bytes per element, math rates (operations/s) and bandwidth (bytes/s) of a block.
struct BlockRates {
  double gemm_bytes = 0;
  double kv_bytes = 0;
  double fmha_bytes = 0;
  double gemm_flops = 0;
  double indexer_flops = 0;  // the indexer computes in fp8 whatever the block does
  double fmha_flops = 0;
  double bandwidth = 0;

  // `fmha` is the format attention computes in. Figures are asked for in the order above; the first
  // missing one is the error.
  static Result<BlockRates> Of(const SystemSpec& system, GemmQuant gemm, KvQuant kv,
                               FmhaQuant fmha);
};

// Causal query-key pairs of `b` requests with `s` new tokens after `p` cached ones, each query
// seeing at most its last `window` tokens.
constexpr Count WindowedPairs(Count b, Count s, Count p, Count window) {
  const Count full = s + p;
  if (full <= window) return b * (full * (full + 1) - p * (p + 1)) / 2;
  if (p >= window) return b * s * window;
  return b * (window * (window + 1) - p * (p + 1)) / 2 + b * (full - window) * window;
}

struct DsaRoofline {
  DsaShape shape{};
  BlockRates rates;
  std::uint64_t window = 0;  // tokens a query keeps in prefill; decode keeps the architecture's
  bool has_indexer = true;   // layers that reuse another layer's choice have none (prefill only)

  // `n` local heads.
  Roof Context(std::uint64_t n, std::uint64_t b, std::uint64_t s, std::uint64_t p) const;
  Roof Generation(std::uint64_t n, std::uint64_t b, std::uint64_t s) const;

 private:
  Count Weights(Count n) const;
  Count Projections(Count n, Count tokens) const;
};

}  // namespace infercast::latent
