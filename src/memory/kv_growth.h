// How the KV cache of one sequence grows: what a further token adds, and what a sequence takes
// whatever its length.
#pragma once

#include "models/model_facts.h"

namespace infercast {

// Bytes on one GPU.
struct KvGrowth {
  double per_token = 0;     // of a sequence that has filled its windows
  double per_sequence = 0;  // recurrent state, buffers, filled windows
};

// bytes(S) = per_token * S + per_sequence for long sequences, up to the rounding of compressed
// positions.
KvGrowth GrowthOf(const KvLayout& layout);

}  // namespace infercast
