// From the traces of a simulated run to what a load generator would report.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model_facts.h"
#include "serving/closed_loop.h"
#include "serving/rank_state.h"

namespace infercast {

struct LoopStatistics {
  double duration = 0;
  std::int64_t steps = 0, context_steps = 0;
  double running_time = 0;  // ms * requests
  double peak_kv_share = 0;
};

Status CheckPolicy(const BatchPolicy& policy);

// Requests of a load, in order of sending, with their decode steps and their KV reserve.
std::vector<RequestTrace> MakeTraces(const LoadSpec& load, const KvLayout& kv,
                                     double kv_output_share);

ServingForecast Sum(const std::vector<RequestTrace>& requests,
                    const ServingCorrections& corrections, const LoopStatistics& totals);

}  // namespace infercast
