// KV-cache growth and its inverse.
#include "models/model_facts.h"

#include <algorithm>

#include "base/float_division.h"

namespace infercast {

double KvLayout::Bytes(std::int64_t seq) const {
  seq = std::max<std::int64_t>(seq, 0);
  double bytes = 0;
  for (const KvTerm& term : terms) {
    const std::int64_t positions =
        term.window > 0 ? std::min(seq, term.window) : seq / std::max<std::int64_t>(term.stride, 1);
    bytes += static_cast<double>(positions) * term.bytes;
  }
  return bytes + state_bytes;
}

std::int64_t KvLayout::Capacity(double budget) const {
  if (!(budget > 0)) return 0;
  if (inverse == KvInverse::kLinear) {
    const double per_token = Bytes(1);
    return per_token > 0 ? static_cast<std::int64_t>(ExactFloorDivide(budget, per_token)) : 0;
  }
  if (inverse == KvInverse::kAffine) {
    const double per_token = Bytes(1) - state_bytes;
    const double left = budget - state_bytes;
    if (!(left > 0) || !(per_token > 0)) return 0;
    return static_cast<std::int64_t>(ExactFloorDivide(left, per_token));
  }
  if (!(Bytes(1) > 0)) return 0;
  // Double until it no longer fits; a cache that stops growing (every layer windowed) fits any
  // length the model supports.
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  std::int64_t high = 1;
  while (Bytes(high) <= budget) {
    if (Bytes(2 * high) == Bytes(high) || high > kLimit) {
      return context_length > 0 ? context_length : 2 * high;
    }
    high *= 2;
  }
  std::int64_t low = high / 2;
  while (low + 1 < high) {
    const std::int64_t mid = low + (high - low) / 2;
    (Bytes(mid) <= budget ? low : high) = mid;
  }
  return low;
}

}  // namespace infercast
