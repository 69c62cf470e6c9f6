// The order among rows of equal value: a user expects the faster one per token, then the faster
// first token, then fewer GPUs; what still ties keeps the search order.
#pragma once

#include "serving/disaggregated.h"
#include "serving/rows.h"

namespace infercast {

template <typename Row>
bool BetterAmongEquals(const Row& a, const Row& b) {
  if (a.tpot != b.tpot) return a.tpot < b.tpot;
  if (a.ttft != b.ttft) return a.ttft < b.ttft;
  return a.num_total_gpus < b.num_total_gpus;
}

}  // namespace infercast
