// Aggregated search: every layout at every batch size and prefill budget, each point evaluated
// once, all targets filtered over the same points.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "search/candidates.h"
#include "search/search_result.h"
#include "search/worker_source.h"
#include "serving/rows.h"
#include "serving/workload.h"

namespace infercast {

struct AggregatedSearchOptions {
  std::int64_t max_batch = 512;
  std::int64_t context_stride = 512;
  bool chunked_prefill = false;
  std::size_t rows_per_target = 10;  // reference behaviour: kept per layout and target; 0 = all
  Speculation speculation;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
};

struct AggregatedSearchResult {
  // Reference behaviour: rounded rows that meet some target, in the reference's selection. Native:
  // every row that fits and meets the loosest target. Best tokens/s/GPU first.
  std::vector<AggregatedRow> rows;
  std::vector<std::shared_ptr<const Worker>> workers;  // own what the rows point to
  // Rows that fit but meet no target, nearest first (at most a few): what to say when rows is
  // empty.
  std::vector<AggregatedRow> nearest_misses;
  // Reference behaviour: rows that a target's limit left out although they equal the last one kept;
  // there the choice is the sort's alone.
  std::vector<AggregatedRow> cut_ties;
  SearchTally tally;
};

// Everything one layout has to offer: the points that fit, in search order, not rounded.
struct LayoutPoints {
  std::shared_ptr<const Worker> worker;  // null when it cannot be built
  std::vector<AggregatedRow> points;
  SearchTally tally;
};
LayoutPoints EvaluateLayout(const ParallelLayout& layout, const WorkerSource& source,
                            const Workload& workload, const AggregatedSearchOptions& options,
                            Behaviour behaviour);

// Layouts run in parallel; the result does not depend on the number of threads.
AggregatedSearchResult SearchAggregated(std::span<const ParallelLayout> layouts,
                                        const WorkerSource& source, const Workload& workload,
                                        std::span<const LatencyTarget> targets,
                                        const AggregatedSearchOptions& options,
                                        Behaviour behaviour);

}  // namespace infercast
