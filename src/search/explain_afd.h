// The operators behind an attention/feed-forward disaggregated row, by side.
#pragma once

#include <vector>

#include "base/error.h"
#include "search/explain_rows.h"
#include "serving/afd_simulation.h"

namespace infercast {

// "prefill_a_worker", "prefill_f_worker", "decode_a_worker", "decode_f_worker": what each side runs
// in one step of a micro-batch, over all layers; "comm": what crosses between them in one layer.
Status ExplainAfd(const AfdDeployment& deployment, const Workload& workload,
                  const AfdSchedule& schedule, AfdPhase phase, const AfdOptions& options,
                  std::vector<EstimatePhase>& phases);

// Fills the bounds of what ExplainAfd gave.
Status AddAfdBounds(const AfdDeployment& deployment, const Workload& workload,
                    const AfdSchedule& schedule, AfdPhase phase, const AfdOptions& options,
                    std::vector<EstimatePhase>& phases);

}  // namespace infercast
