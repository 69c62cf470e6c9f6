// The forecast of one attention/feed-forward disaggregated deployment.
#pragma once

#include "base/error.h"
#include "search/estimate_point.h"

namespace infercast {

// Called by EstimatePoint for requests of mode AFD.
Result<PointEstimate> EstimateAfdPoint(const EstimateRequest& request, Workbench& bench);

}  // namespace infercast
