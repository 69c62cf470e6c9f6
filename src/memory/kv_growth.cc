// The terms of a KV layout, told apart by whether they keep growing.
#include "memory/kv_growth.h"

#include <algorithm>

namespace infercast {

KvGrowth GrowthOf(const KvLayout& layout) {
  KvGrowth out;
  out.per_sequence = layout.state_bytes;
  for (const KvTerm& term : layout.terms) {
    if (term.window > 0) {
      out.per_sequence += term.bytes * static_cast<double>(term.window);
    } else {
      out.per_token += term.bytes / static_cast<double>(std::max<std::int64_t>(term.stride, 1));
    }
  }
  return out;
}

}  // namespace infercast
