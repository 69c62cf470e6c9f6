// A benchmark run in virtual time: clients that keep a number of requests in flight (or send at a
// rate), a scheduler that forms steps, an engine that prices them. Answers what a closed formula
// cannot: how the first tokens of a burst queue behind each other, what polling, memory and unequal
// ranks cost.
//
// Method: event-driven simulation over steps. Runs of decode-only steps are jumped over until
// something may change (a request ends, one arrives, the scheduler looks, 64 steps); a jump costs
// what its first step costs. Ranks of one worker move in lock step. Deterministic for a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "serving/batch_policy.h"
#include "serving/benchmark_load.h"
#include "serving/corrections.h"
#include "serving/step_costs.h"

namespace infercast {

// Means over the requests, ms; they add up to the mean TTFT.
struct FirstTokenParts {
  double front_end = 0;  // client, transport, tokeniser; first piece on its way back
  double polling = 0;    // received, not yet seen by the scheduler
  double queue = 0;      // seen, waiting for its first step
  double prefill = 0;    // from its first step to the step that completes the prompt
  double transfer = 0;   // KV cache on its way to the decode worker (disaggregated)
};

struct ServingForecast {
  Distribution ttft;           // ms, as a client sees it
  Distribution tpot;           // ms per token after the first, per request
  double mean_latency_ms = 0;  // of a whole request, as a client sees it
  FirstTokenParts parts;
  double duration_ms = 0;  // of the whole run
  std::int64_t requests = 0;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double mean_running = 0;        // requests that decode, time average, all ranks and workers
  double context_step_share = 0;  // of the steps, those with prompts
  double peak_kv_share = 0;       // of the KV capacity, reserved at most
};

// KV memory of one rank under a policy.
struct KvSpace {
  double bytes = 0;     // 0: nothing is left beside weights and buffers
  bool limited = true;  // false: admission never waits for memory
};
// kInvalidEngineConfig, kModelConfig as EstimateMemory.
Result<KvSpace> KvSpaceOf(const Worker& worker, const BatchPolicy& policy);

// One worker that does everything. Errors: those of CheckLoad and of the engine;
// kDoesNotFit when the weights leave no KV memory and it is limited.
Result<ServingForecast> ForecastClosedLoop(StepCosts& costs, const BatchPolicy& policy,
                                           const ServingCorrections& corrections, const KvSpace& kv,
                                           const LoadSpec& load);

// A pool of prefill workers in front of a pool of decode workers.
struct DisaggregatedPools {
  StepCosts* prefill = nullptr;
  StepCosts* decode = nullptr;
  std::int64_t prefill_workers = 1;
  std::int64_t decode_workers = 1;
  BatchPolicy prefill_policy;  // its max_requests: prompts of one rank's step
  KvSpace decode_kv;
  double decode_kv_output_share = 1;
};
Result<ServingForecast> ForecastDisaggregated(const DisaggregatedPools& pools,
                                              const ServingCorrections& corrections,
                                              const LoadSpec& load);

}  // namespace infercast
