// The figures of one deployment point: one worker (static or aggregated), or a pair of pools.
//
// Units: ms; requests, tokens per second; GiB; W per GPU. Nothing is rounded here; the reference's
// rounding is applied where its tables are reproduced.
#pragma once

#include <cstdint>
#include <string>

#include "base/modes.h"
#include "memory/memory_usage.h"
#include "models/parallel.h"
#include "models/quantisation.h"

namespace infercast {

// Who serves: repeated in every row, so kept once per worker and pointed to.
struct WorkerIdentity {
  std::string model;
  std::string system;
  Backend backend = Backend::kTrtllm;
  std::string version;
  ParallelLayout layout;
  QuantModes quant;
  std::string parallel;  // "tp2pp1dp1etp1ep1", with "cp4" appended where used
};

// "tp2pp1dp1etp1ep1" of a layout.
std::string ParallelText(const ParallelLayout& layout);

// What static and aggregated rows have in common.
struct WorkerRow {
  const WorkerIdentity* worker = nullptr;
  std::int64_t isl = 0, osl = 0, prefix = 0;
  double concurrency = 0;
  double request_rate = 0;
  std::int64_t bs = 0;
  std::int64_t global_bs = 0;
  double ttft = 0;
  double tpot = 0;
  double seq_s = 0;
  double seq_s_gpu = 0;
  double tokens_s = 0;
  double tokens_s_gpu = 0;
  double tokens_s_user = 0;
  double request_latency = 0;
  double encoder_latency = 0;
  double encoder_memory = 0;
  std::int64_t num_total_gpus = 0;
  double power_w = 0;
  double power_coverage = 0;  // share of the latency whose operators have measured power
  MemoryUsage memory;
  MemoryVerdict verdict;
};

struct StaticRow : WorkerRow {
  double context_latency = 0;
  double generation_latency = 0;
};

struct AggregatedRow : WorkerRow {
  double balance_score = 0;
  double num_ctx_reqs = 0;
  double num_gen_reqs = 0;
  double num_tokens = 0;
  std::int64_t ctx_tokens = 0;
  // The schedule behind the row.
  double mixed_step_ms = 0, decode_step_ms = 0;
  double num_mixed_steps = 0, num_decode_steps = 0;
  std::int64_t mixed_decodes = 0, decode_batch = 0;  // requests decoding in each kind of step
  double decode_iterations = 1;
};

}  // namespace infercast
