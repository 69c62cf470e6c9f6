// The forecast of one attention/feed-forward disaggregated deployment, alone or with an undivided
// worker for the phase that it does not serve.
#pragma once

#include "base/error.h"
#include "search/estimate_point.h"

namespace infercast {

// Called by EstimatePoint for requests of mode AFD. kInvalidArgument for impossible settings, among
// them an undivided worker beside both phases; kDoesNotFit when a side or that worker does not fit
// in memory; and the errors of opening, building and pricing.
Result<PointEstimate> EstimateAfdPoint(const EstimateRequest& request, Workbench& bench);

}  // namespace infercast
