// The detailed part of `estimate`: every operator with its bound and origin, where the time goes,
// and how far to trust it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/estimate_output.h"
#include "search/explain_rows.h"

namespace infercast {

// `load` may be null: then no interval is told.
std::string DetailText(const std::vector<EstimatePhase>& phases, const LoadAnswer* load,
                       const EstimateDetail& detail);

// Adds "operators", "time" and "trust" to `json` (docs/results.md).
void AddDetail(const std::vector<EstimatePhase>& phases, nlohmann::ordered_json& json);

}  // namespace infercast
