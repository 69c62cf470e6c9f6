// Disaggregated search: worker tables of both pools, then the best pair and worker counts for each
// target. Counts are matched once per pair of workers, over the replica sizes that are allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/candidates.h"
#include "search/pool_rows.h"
#include "search/search_result.h"
#include "search/worker_source.h"
#include "serving/disaggregated.h"
#include "serving/workload.h"

namespace infercast {

struct ReplicaRules {
  // GPUs that one replica (prefill and decode workers together) may have, ascending; empty: any up
  // to `max_gpus`.
  std::vector<std::int64_t> allowed_gpus;
  std::optional<std::int64_t> max_gpus;  // where no sizes are listed; absent: no limit
  std::int64_t max_prefill_workers = 32;
  std::int64_t max_decode_workers = 32;
};

struct DisaggregatedSearchOptions {
  std::int64_t prefill_max_batch = 1;
  std::int64_t decode_max_batch = 512;
  double prefill_latency_correction = 1.1;
  double decode_latency_correction = 1.08;
  PoolFactors factors;
  ReplicaRules replica;
  Speculation speculation;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  // Whether a prefill layout may feed a decode layout; absent: always.
  std::function<bool(const ParallelLayout& prefill, const ParallelLayout& decode)> compatible;
  std::size_t rows_per_target = 5;
};

struct DisaggregatedSearchResult {
  std::vector<DisaggregatedRow> rows;  // best tokens/s/GPU first
  std::vector<std::shared_ptr<const Worker>> workers;
  SearchTally prefill_tally, decode_tally;
  double fastest_ttft = 0;  // of any prefill row, queueing included
  double fastest_tpot = 0;  // of any decode row
  // Set when a pool has no worker at all.
  std::optional<Error> error;
};

DisaggregatedSearchResult SearchDisaggregated(
    std::span<const ParallelLayout> prefill_layouts, const WorkerSource& prefill_source,
    std::span<const ParallelLayout> decode_layouts, const WorkerSource& decode_source,
    const Workload& workload, std::span<const LatencyTarget> targets,
    const DisaggregatedSearchOptions& options, Behaviour behaviour);

// Every prefill and every decode worker that the options allow, each on its own.
struct BothPools {
  PoolRows prefill, decode;
};
BothPools EvaluatePools(std::span<const ParallelLayout> prefill_layouts,
                        const WorkerSource& prefill_source,
                        std::span<const ParallelLayout> decode_layouts,
                        const WorkerSource& decode_source, const Workload& workload,
                        const DisaggregatedSearchOptions& options, Behaviour behaviour);

// Worker counts (prefill, decode) with the best rate per GPU; zeros when no allowed size exists.
struct WorkerMatch {
  std::int64_t prefill = 0;
  std::int64_t decode = 0;
  double rate = 0;
};
WorkerMatch MatchWorkers(const StaticRow& prefill, const StaticRow& decode,
                         const PoolFactors& factors, const ReplicaRules& rules);

}  // namespace infercast
