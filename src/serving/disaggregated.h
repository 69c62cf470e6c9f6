// Disaggregated serving: a pool of prefill workers feeds a pool of decode workers.
#pragma once

#include <cstdint>

#include "serving/rows.h"

namespace infercast {

// Rates lost to imbalance between the pools, and the queueing in front of the prefill pool.
struct PoolFactors {
  double prefill_degradation = 0.9;
  double decode_degradation = 0.92;
  double ttft_queueing = 1.8;
};

struct DisaggregatedRow {
  StaticRow prefill;  // ttft already with the queueing factor, where one applies
  StaticRow decode;
  std::int64_t prefill_workers = 0;
  std::int64_t decode_workers = 0;
  std::int64_t isl = 0, osl = 0, prefix = 0;
  double concurrency = 0;
  double request_rate = 0;
  double ttft = 0;
  double tpot = 0;
  double request_latency = 0;
  double encoder_latency = 0;
  double seq_s = 0;
  double seq_s_gpu = 0;
  double tokens_s = 0;
  double tokens_s_gpu = 0;
  double tokens_s_user = 0;
  std::int64_t num_total_gpus = 0;
  double power_w = 0;
  double power_coverage = 0;  // share of the latency whose operators have measured power
  bool fits() const { return prefill.verdict.fits() && decode.verdict.fits(); }
};

// Combines one prefill and one decode worker's figures. `prefill.ttft` must carry the queueing
// factor already. Not rounded.
DisaggregatedRow ComposeDisaggregated(const StaticRow& prefill, const StaticRow& decode,
                                      std::int64_t prefill_workers, std::int64_t decode_workers,
                                      const PoolFactors& factors);

// Table rounding to three decimals of every real column: the reference composes and reports rounded
// rows.
void RoundColumns(StaticRow& row);
void RoundColumns(AggregatedRow& row);
void RoundColumns(DisaggregatedRow& row);

// A decode row under speculation: `accepted` drafts per iteration shorten the time per token and
// raise the rates. Applied to rounded rows, and rounded again, in reference behaviour.
void ProjectSpeculation(StaticRow& row, double accepted, bool round);
// A row of a whole static batch (prefill and decode): rates follow the shortened request latency.
void ProjectStaticSpeculation(StaticRow& row, double accepted, bool round);

}  // namespace infercast
