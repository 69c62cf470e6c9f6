// Speed of light of a grouped expert feed-forward: two or three matrix products per routed token,
// weights of the experts that tokens can reach read once, spread over tensor and expert ranks.
//
// Work and bytes are whole numbers: every division by a rank count rounds down, in the order
// written, and unsigned products wrap. Reference parity rests on that.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/modes.h"

namespace infercast {

struct MoeShape {
  std::uint64_t hidden = 0;
  std::uint64_t inter = 0;
  std::uint64_t topk = 0;
  std::uint64_t experts = 0;  // whose weights are read: real ones, or slots with replicas
};

struct MoeRoofline {
  MoeShape shape;
  std::uint64_t tp = 1;        // 0 acts as 1
  std::uint64_t ep = 1;        // 0 acts as 1
  std::uint64_t products = 3;  // matrix products per expert: 3 gated, 2 not
  double flops = 0;            // operations/s
  double weight_bytes = 0;     // bytes per element; the reference charges activations with it too
  double bandwidth = 0;        // bytes/s

  struct Bounds {
    double math_ms = 0;
    double mem_ms = 0;
    double Time() const { return std::max(math_ms, mem_ms); }
  };

  Bounds At(std::uint64_t tokens) const {
    const std::uint64_t ranks_tp = std::max<std::uint64_t>(tp, 1);
    const std::uint64_t ranks_ep = std::max<std::uint64_t>(ep, 1);
    const std::uint64_t routed = tokens * shape.topk;
    const std::uint64_t local = routed / ranks_ep;
    const std::uint64_t ops =
        routed * shape.hidden * shape.inter * products * 2 / ranks_ep / ranks_tp;
    const std::uint64_t bytes = local * shape.hidden * 2 +
                                local * shape.inter * products / ranks_tp +
                                shape.hidden * shape.inter * products / ranks_tp *
                                    std::min(shape.experts / ranks_ep, local);
    return {static_cast<double>(ops) / flops * 1000.0,
            static_cast<double>(bytes) * weight_bytes / bandwidth * 1000.0};
  }

  // At a token count as tables carry it.
  double TimeAt(double tokens) const {
    return At(static_cast<std::uint64_t>(std::llround(std::max(tokens, 0.0)))).Time();
  }
};

// Number of matrix products per expert.
constexpr std::uint64_t ExpertProducts(bool is_gated) { return is_gated ? 3 : 2; }

// Tokens of all attention ranks together: x times the rank count (0 acts as 1), at most 2^32 - 1.
constexpr std::uint32_t GatheredTokens(std::uint32_t x, std::uint32_t attention_dp) {
  const std::uint64_t product =
      static_cast<std::uint64_t>(x) * std::max<std::uint64_t>(attention_dp, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(product, 0xffffffffu));
}

// Tokens of the fullest rank once experts are balanced by replication: four fifths, rounded down.
inline std::uint32_t BalancedTokens(std::uint32_t tokens) {
  return static_cast<std::uint32_t>(static_cast<double>(tokens) * 0.8);
}

}  // namespace infercast
