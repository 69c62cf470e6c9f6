// The figures of one attention/FFN-disaggregated deployment point.
//
// Units: ms; requests, tokens per second; GiB. Nothing is rounded here; RoundAsReported applies the
// reference's rounding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memory/memory_usage.h"
#include "serving/afd_topology.h"
#include "serving/rows.h"

namespace infercast {

// One phase: per-layer times and the step that they make.
struct AfdPhaseTimes {
  double attention = 0;  // work of the attention side, adding up the experts' results included
  double ffn = 0;        // work of the FFN side, its gather and scatter included
  double to_ffn = 0;
  double to_attention = 0;
  double transfers = 0;      // both directions
  double step = 0;           // all layers, all micro-batches
  double balance_ratio = 0;  // faster side over slower side
  bool transfers_hidden = false;
};

// Memory of one GPU of a side: the phase that needs more.
struct AfdSideMemory {
  MemoryUsage usage;
  MemoryVerdict verdict;
};

// The undivided worker that serves the other phase.
struct AfdStaticPartner {
  const WorkerIdentity* worker = nullptr;
  bool prefills = true;  // else it decodes
  std::int64_t workers = 1;
  std::int64_t bs = 0;
  std::int64_t gpus_per_worker = 0;
};

struct AfdRow {
  const WorkerIdentity* attention_worker = nullptr;
  const WorkerIdentity* ffn_worker = nullptr;
  AfdPhase phase = AfdPhase::kDecode;
  AfdLayout layout;
  AfdSchedule schedule;
  std::int64_t isl = 0, osl = 0, nextn = 0;
  AfdSideMemory attention_memory, ffn_memory;
  std::optional<AfdPhaseTimes> prefill, decode;  // the phases that were run

  double ttft = 0;
  double tpot = 0;
  double request_latency = 0;
  std::int64_t total_batch = 0;        // over all attention workers
  std::int64_t micro_batch_total = 0;  // of these in one micro-batch
  double tokens_s = 0;
  double tokens_s_gpu = 0;
  double tokens_s_user = 0;
  double seq_s = 0;
  double request_rate = 0;
  double concurrency = 0;
  bool combined_with_static = false;  // as the deployment was asked for
  std::optional<AfdStaticPartner> partner;
  std::int64_t num_total_gpus = 0;
  double memory = 0;  // of the GPU that needs most

  bool oom() const { return attention_memory.verdict.oom || ffn_memory.verdict.oom; }
  bool fits() const { return attention_memory.verdict.fits() && ffn_memory.verdict.fits(); }
  // The phase that ran, when only one did.
  const AfdPhaseTimes* HeadlineTimes() const {
    if (prefill && decode) return nullptr;
    return prefill ? &*prefill : decode ? &*decode : nullptr;
  }
};

// Times and request rates to 3 decimals, token rates and the row's memory to 2. The sides' memory
// stays exact.
void RoundAsReported(AfdRow& row);

// Sets the rates that follow from tpot, at `total_batch` requests: all zero for tpot 0.
void FillAfdRates(AfdRow& row);

// A decode row under speculation: `accepted` drafts per iteration shorten the time per token and
// raise the rates. `round`: to three decimals afterwards, as the reference does.
void ProjectSpeculation(AfdRow& row, double accepted, bool round);

}  // namespace infercast
