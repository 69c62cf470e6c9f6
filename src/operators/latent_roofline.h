// Speed-of-light times of latent attention (MLA): the bare prefill and decode kernels, the two
// projections that absorb and expand the latent, and the whole block under wide expert parallelism.
//
// The shapes are those of DeepSeek-V3: 128 + 64 query/key dimensions (no-position + rotary), 128
// value dimensions, a latent of 512. All arithmetic is binary64, left to right as written.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "operators/perf_result.h"

namespace infercast::latent {

// Both bounds of a kernel, ms.
struct Roof {
  double math_ms = 0;
  double mem_ms = 0;

  double Time() const { return std::max(math_ms, mem_ms); }
  PerfResult Result() const { return PerfResult::Sol(math_ms, mem_ms); }
  // For kinds that report no decomposition.
  PerfResult TimeOnly() const {
    return PerfResult::Of(Time(), 0, Source::kSol, OriginKind::kSpeedOfLight);
  }
};

// Prefill: `b` requests of `s` new tokens after `p` cached ones; `full` = s + p; `n` local heads.
inline Roof ContextMlaRoof(double b, double n, double s, double p, double full, double kv_bytes,
                           double flops, double bandwidth) {
  const double ops = b * n * 320.0 * (full * full - p * p);
  const double bytes = b * n * (kv_bytes * full * 320.0 + 2.0 * s * 320.0);
  return {ops / flops * 1000.0, bytes / bandwidth * 1000.0};
}

// Decode of one token over a KV cache of `s` tokens. The cache holds s - 1 earlier ones, so s = 0
// gives a negative count; that is kept, as the time is a maximum with the math bound.
inline Roof GenerationMlaRoof(double b, double n, double s, double kv_bytes, double flops,
                              double bandwidth) {
  const double ops = 2.0 * b * n * 1088.0 * s;
  const double bytes = b * (n * 1088.0 * 2.0 + (s - 1.0) * 576.0 * kv_bytes);
  return {ops / flops * 1000.0, bytes / bandwidth * 1000.0};
}

// One absorbing or expanding product of `t` tokens, 128 x 512 per head.
inline Roof MlaBmmRoof(double t, double n, double weight_bytes, double flops, double bandwidth) {
  const double ops = 2.0 * t * n * 128.0 * 512.0;
  const double bytes = n * (t * 640.0 + 128.0 * 512.0) * weight_bytes;
  return {ops / flops * 1000.0, bytes / bandwidth * 1000.0};
}

// Decode kernel and its two products measured together.
inline Roof GenerationMlaModuleRoof(double b, double n, double s, double kv_bytes,
                                    double weight_bytes, double attention_flops, double gemm_flops,
                                    double bandwidth) {
  Roof roof = GenerationMlaRoof(b, n, s, kv_bytes, attention_flops, bandwidth);
  roof.math_ms += 4.0 * b * n * 128.0 * 512.0 / gemm_flops * 1000.0;
  roof.mem_ms += 2.0 * n * (b * 640.0 + 128.0 * 512.0) * weight_bytes / bandwidth * 1000.0;
  return roof;
}

// Share of the full sequence's (quadratic) work that is left when `p` of its tokens are cached.
inline double PrefixCorrection(std::uint32_t full, std::uint32_t p) {
  if (full == 0) return 0.0;
  const double f = full;
  const double c = p;
  return (f * f - c * c) / (f * f);
}

// Tokens of one of the 2 * cp slices in which zigzag context parallelism cuts a prompt: a rank gets
// the first and the last slice, so that causal work is even.
inline std::uint32_t ZigzagChunk(std::uint32_t s, std::uint32_t cp_size) {
  const std::uint64_t slices = 2 * static_cast<std::uint64_t>(cp_size);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>((s + slices - 1) / slices, 1));
}

}  // namespace infercast::latent
