// The table of one pool of a disaggregated deployment: every layout at every batch size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "search/search_result.h"
#include "search/worker_source.h"
#include "serving/disaggregated.h"

namespace infercast {

struct PoolRows {
  std::vector<StaticRow> rows;  // in order of layouts, then batches; rounded in reference behaviour
  std::vector<std::shared_ptr<const Worker>> workers;
  SearchTally tally;
};

// Layouts run in parallel; each stops at the first batch that does not fit. `accepted` drafts per
// iteration speed up the rows of decode workers.
PoolRows EvaluatePool(std::span<const ParallelLayout> layouts, const WorkerSource& source,
                      const Workload& workload, StaticMode mode,
                      std::span<const std::int64_t> batches, const EvaluationOptions& evaluation,
                      double accepted, Behaviour behaviour);

}  // namespace infercast
