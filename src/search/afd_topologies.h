// Which splits of a cluster into attention and FFN nodes a search tries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/task.h"
#include "serving/afd_topology.h"

namespace infercast {

// What the enumeration needs to know of model and machine.
struct AfdSpace {
  std::int64_t gpus_per_node = 8;
  std::int64_t gpu_budget = 0;
  bool is_moe = false;
  std::int64_t num_experts = 0;
};

// A split, and how its micro-batches take turns; the batch size is the search's to find.
struct AfdCandidate {
  AfdLayout layout;
  std::int64_t micro_batches = 3;
  AfdPipeline pipeline = AfdPipeline::kOptimistic;
};

// In search order: attention nodes, FFN nodes, attention width, expert-parallel size,
// micro-batches, pipeline. Optimistic pipelines need three micro-batches. kInvalidArgument for
// budgets below two nodes, wrong list entries, and more candidates than the limit (unless they are
// to be truncated); kNoFeasibleConfig when nothing is left.
Result<std::vector<AfdCandidate>> EnumerateAfdCandidates(const AfdSpace& space,
                                                         const AfdChoice& choice);

// Whether the user fixed the split. kInvalidArgument when only a part of it is given.
Result<bool> IsPinned(const AfdChoice& choice);
// The one candidate of a fixed split with its batch. kInvalidArgument for splits beyond the budget,
// widths that do not divide a node, FFN GPUs that do not divide the experts, contradictory batches.
struct PinnedAfd {
  AfdLayout layout;
  AfdSchedule schedule;
};
Result<PinnedAfd> PinnedTopology(const AfdSpace& space, const AfdChoice& choice);

}  // namespace infercast
