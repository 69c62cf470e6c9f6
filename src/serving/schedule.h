// The steady state of continuous batching in closed form: how many steps of an interval carry
// prefill work, how many only decode, and how many requests decode in each.
//
// Method: b requests that start together need ceil(isl*b/ctx) steps with prefill work at ctx
// prefill tokens a step, and 1 + (osl-1)/progress decode iterations; the backends differ in how
// many requests decode beside a prefill and in how queueing lengthens the first token.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/modes.h"

namespace infercast {

struct AggregatedSchedule {
  double balance = 0;              // prefill steps per decode iteration
  double decode_iterations = 1;    // per request
  double mixed_steps = 0;          // steps with prefill work
  double decode_steps = 0;         // steps without
  double mixed_steps_in_tpot = 0;  // mixed steps that count for the time per output token
  std::int64_t mixed_decodes = 0;  // requests that decode in a mixed step
  std::int64_t decode_batch = 0;   // requests in a decode-only step
  double prefill_chunks = 0;       // ceil(isl*b/ctx)
};

// ctx: prefill tokens a step, > 0. isl includes image tokens.
AggregatedSchedule PlanAggregated(Backend backend, std::int64_t batch, std::int64_t ctx,
                                  std::int64_t isl, std::int64_t osl, double progress);

// Factor on the first token's latency for the requests ahead in the queue.
double FirstTokenQueueFactor(Backend backend, std::int64_t batch, double prefill_chunks);

// Host time to dispatch one request's prefill, ms.
double PrefillDispatchOverhead(Backend backend, std::int64_t layers);

}  // namespace infercast
