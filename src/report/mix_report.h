// The best deployments for a mix of workloads, and how each of them does under every kind.
#pragma once

#include <string>

#include "report/cost.h"
#include "report/table.h"
#include "search/workload_mix.h"

namespace infercast {

std::string MixText(const MixResult& result, const GpuPrices& prices);
// One row per deployment and kind of workload.
ResultTable MixTable(const MixResult& result, const GpuPrices& prices);
// {"workloads": [...], "compared", "best": [{"experiment", "deployment", ..., "workloads": [...]}]}
std::string MixJson(const MixResult& result, const GpuPrices& prices);

}  // namespace infercast
