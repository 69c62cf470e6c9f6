// Undivided prefill workers in front of an AFD decode pool: which there are, and how many are worth
// adding.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/misses.h"
#include "search/search_result.h"
#include "search/task.h"
#include "search/worker_source.h"
#include "serving/afd_row.h"

namespace infercast {

struct AfdPrefillOptions {
  std::vector<StaticRow> rows;  // not rounded
  std::vector<std::shared_ptr<const Worker>> workers;
  SearchTally tally;
};

// Every layout at every batch size (afd_prefill_batch_size_list, or powers of two up to 32) that
// fits in memory (in reference behaviour whatever its KV cache's budget). kInvalidArgument for more
// pairs than the limit (unless to be truncated), kNoFeasibleConfig when none is left.
Result<AfdPrefillOptions> EvaluateAfdPrefill(std::span<const ParallelLayout> layouts,
                                             const WorkerSource& source, const Workload& workload,
                                             std::int64_t gpu_budget, const AfdChoice& choice,
                                             Behaviour behaviour);

struct AfdPrefillLimits {
  std::int64_t gpu_budget = 0;
  double ttft = 0;                                       // target
  std::optional<double> request_latency = std::nullopt;  // target
};

// The decode row with the prefill workers that give the best throughput per GPU; none when no
// option meets the targets within the budget. `reference`: rounded as the reference does.
std::optional<AfdRow> CombineWithPrefill(const AfdRow& decode, std::span<const StaticRow> options,
                                         const AfdPrefillLimits& limits, const AfdChoice& choice,
                                         bool reference);

// Which limits the row breaks behind the prefill workers with which it comes nearest to them.
Misses MissesWithPrefill(const AfdRow& decode, std::span<const StaticRow> options,
                         const AfdPrefillLimits& limits, const AfdChoice& choice);

}  // namespace infercast
