// From the traces of a simulated run to what a load generator would report.
#pragma once

#include <cstdint>
#include <limits>
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

// Whether a run may end since its mean TTFT is above what its caller can use.
class Patience {
 public:
  Patience(const LoadSpec& load, const ServingCorrections& corrections)
      : limit_(load.give_up_ttft > 0 ? (load.give_up_ttft - corrections.first_token_ms) *
                                           static_cast<double>(RequestsOf(load))
                                     : std::numeric_limits<double>::infinity()) {}

  void Waited(double ms) { waited_ += ms; }
  bool over() const { return waited_ > limit_; }
  static std::unexpected<Error> Over() {
    return Fail(ErrorKind::kNoFeasibleConfig, "the mean time to first token is beyond its limit");
  }

 private:
  double limit_;  // ms, of all requests together
  double waited_ = 0;
};

Status CheckPolicy(const BatchPolicy& policy);

// Requests of a load, in order of sending, with their decode steps and their KV reserve.
std::vector<RequestTrace> MakeTraces(const LoadSpec& load, const KvLayout& kv,
                                     double kv_output_share);

// `requests`: all of `load`, or those that were run of a load cut short (wave_watch.h).
ServingForecast Sum(const std::vector<RequestTrace>& requests, const LoadSpec& load,
                    const ServingCorrections& corrections, const LoopStatistics& totals);

}  // namespace infercast
