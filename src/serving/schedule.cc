#include "serving/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/float_division.h"

namespace infercast {

AggregatedSchedule PlanAggregated(Backend backend, std::int64_t batch, std::int64_t ctx,
                                  std::int64_t isl, std::int64_t osl, double progress) {
  AggregatedSchedule s;
  const double tokens = static_cast<double>(isl * batch);
  s.decode_iterations = 1 + static_cast<double>(std::max<std::int64_t>(osl - 1, 0)) / progress;
  s.balance = tokens / static_cast<double>(ctx) / s.decode_iterations;
  s.prefill_chunks = std::ceil(tokens / static_cast<double>(ctx));
  const bool vllm = backend == Backend::kVllm;
  if (batch == 1) {
    s.mixed_steps = 1;
    s.decode_steps = std::max(s.decode_iterations - 1, 0.0);
    s.decode_batch = 1;
    return s;
  }
  const bool prefill_bound = s.prefill_chunks >= s.decode_iterations;
  if (!vllm && prefill_bound) {
    s.mixed_decodes = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(ExactFloorDivide(static_cast<double>(batch),
                                                      s.prefill_chunks / s.decode_iterations)));
  } else {
    const double prefills = std::ceil(static_cast<double>(ctx) / static_cast<double>(isl));
    s.mixed_decodes = std::max<std::int64_t>(1, batch - static_cast<std::int64_t>(prefills));
  }
  s.mixed_steps = s.prefill_chunks;
  if (prefill_bound) {
    s.mixed_steps_in_tpot = s.prefill_chunks;
  } else {
    s.decode_steps = s.decode_iterations - s.prefill_chunks;
    s.decode_batch = batch;
    s.mixed_steps_in_tpot = vllm ? s.prefill_chunks : std::max(1.0, s.prefill_chunks - 3);
  }
  return s;
}

double FirstTokenQueueFactor(Backend backend, std::int64_t batch, double prefill_chunks) {
  if (backend == Backend::kVllm) {
    if (batch <= 1) return 1;
    return std::min(1 + std::log2(static_cast<double>(batch)) / 8, 2.0);
  }
  return std::min(2 + (prefill_chunks - 3) / 2 / 10, 4.0);
}

double PrefillDispatchOverhead(Backend backend, std::int64_t layers) {
  return backend == Backend::kVllm ? 0.8 * static_cast<double>(layers) : 0.0;
}

}  // namespace infercast
