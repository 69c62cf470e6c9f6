// Which parallel layouts a search tries: the product of lists of sizes, filtered by the rules of
// the field and of each backend.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/parallel.h"

namespace infercast {

struct CandidateLists {
  std::vector<std::int64_t> num_gpu;  // GPUs of one worker
  std::vector<std::int64_t> tp, pp, dp, moe_tp, moe_ep, cp;

  bool operator==(const CandidateLists&) const = default;
};

struct CandidateRules {
  Backend backend = Backend::kTrtllm;
  bool is_moe = false;
  bool megamoe = false;  // SGLang's fused expert kernel: no tensor-parallel experts
};

// Layouts in search order: tp outermost, then pp, dp, moe_tp, moe_ep, cp. Lists keep their order
// and duplicates. A layout stays when its GPUs are in num_gpu and attention and experts share the
// same width; trtllm does not mix dp with tp, vllm does not mix moe_tp with moe_ep.
// kInvalidArgument for context parallelism on another backend than sglang.
Result<std::vector<ParallelLayout>> EnumerateLayouts(const CandidateLists& lists,
                                                     const CandidateRules& rules);

// Batch sizes of an aggregated search, up to `max_batch`.
std::vector<std::int64_t> AggregatedBatches(std::int64_t max_batch);
// Batch sizes of decode workers, up to and including `max_batch`.
std::vector<std::int64_t> DecodeBatches(std::int64_t max_batch);
// Prefill tokens per step of an aggregated search: multiples of isl, or finer with chunked prefill.
std::vector<std::int64_t> ContextTokenGrid(std::int64_t isl, std::int64_t stride, bool chunked);

struct LatencyTarget {
  double ttft = 0;
  double tpot = 0;
};
// Time-per-token targets of a Pareto sweep: 1..19, then 20..295 by 5.
std::vector<double> TpotSweep();
// First-token and per-token targets that together make a request latency. `ttft`: one more
// first-token value to try. Empty for osl <= 1.
std::vector<LatencyTarget> RequestLatencyTargets(double request_latency, double ttft,
                                                 std::int64_t osl);

}  // namespace infercast
