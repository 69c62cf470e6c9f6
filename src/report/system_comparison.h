// The buyer's table: what each GPU type and backend makes of the same question, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/cost.h"
#include "report/table.h"
#include "search/experiments.h"

namespace infercast {

struct ComparisonOptions {
  GpuPrices prices;                // empty: no costs
  std::optional<LoadTarget> load;  // sized for a load: fewest GPUs instead of most throughput
};

// One row per system and backend that gave a deployment: the best of its serving modes. With prices
// the cheapest per request comes first, else the most throughput per GPU (for a load: the fewest
// GPUs). Deployments that miss the targets come last.
ResultTable SystemComparison(const ExperimentsResult& result, const ComparisonOptions& options);

// The table for a terminal, which one is best in one line, and what gave no answer and why.
std::string SystemComparisonText(const ExperimentsResult& result, const ComparisonOptions& options);

// Whether the result holds more than one system or backend.
bool ComparesSystems(const ExperimentsResult& result);

}  // namespace infercast
