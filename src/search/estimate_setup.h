// What every estimate begins with: the measured data of a system, and what is served on it.
#pragma once

#include <string>

#include "base/error.h"
#include "search/estimate_point.h"
#include "serving/deployment.h"
#include "tables/versions.h"

namespace infercast {

struct EstimateSetup {
  Database database;
  DeploymentRequest deploy;  // its build lacks the layout and what depends on the role
};

// The errors of opening. `system`: of the role, which need not be the request's.
Result<EstimateSetup> SetUpEstimate(const EstimateRequest& request, const std::string& system,
                                    const Speculation& speculation, Workbench& bench);

}  // namespace infercast
