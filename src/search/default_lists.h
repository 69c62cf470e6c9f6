// The sizes that a search tries where the user gave none: powers of two within a node, wider expert
// parallelism where its exchange was measured, pipelines for the largest models.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/large_ep.h"
#include "models/mode_adjustment.h"
#include "models/model_config.h"
#include "search/candidates.h"

namespace infercast {

// What decides about one role's lists.
struct ListRequest {
  const ModelConfig* model = nullptr;
  const SystemSpec* system = nullptr;
  Backend backend = Backend::kTrtllm;
  WorkerRole role = WorkerRole::kAggregated;
  bool megamoe = false;                 // SGLang's fused expert kernel
  bool deepep = false;                  // deprecated choice: no tensor-parallel experts on SGLang
  std::set<std::uint32_t> covered_eps;  // multi-node expert-parallel sizes; see CoveredAcrossNodes
  bool pipelines = false;               // two pipeline stages are tried as well
};

// Expert-parallel sizes beyond one node whose exchange was measured in every phase of the role.
std::set<std::uint32_t> CoveredAcrossNodes(const LargeEpCoverage& coverage, WorkerRole role,
                                           std::uint32_t gpus_per_node);
// The phases whose exchange a layout of the role must have: decode workers prefill too when they
// are warmed up, so they need both.
PhaseNeeds NeedsOf(WorkerRole role);

// Fills the lists that are empty.
void FillLists(const ListRequest& request, CandidateLists& lists);

}  // namespace infercast
