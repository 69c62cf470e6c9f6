// The figures of one attention/FFN-disaggregated deployment point.
//
// Units: ms; requests, tokens per second; GiB. Nothing is rounded here; RoundAsReported applies the
// reference's rounding.
#pragma once

#include <cmath>
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

// The row as its table shows it: one field a column. NaN: the phase was not run.
struct AfdLayerFigures {
  double attention = NAN;
  double feed_forward = NAN;
  double to_feed_forward = NAN;
  double to_attention = NAN;
  double communication = NAN;
  double step = NAN;
  double balance = NAN;
  std::optional<bool> comm_hidden;
};
struct AfdPartner {
  std::int64_t workers = 0, tp = 0, pp = 0, dp = 0, moe_tp = 0, moe_ep = 0, bs = 0, num_gpus = 0;
  std::string system, backend, version;
};
struct AfdFigures {
  std::string model;
  std::string phase;
  std::int64_t isl = 0, osl = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t a_nodes = 0, a_tp = 0, a_bs = 0, a_micro_bs = 0, a_workers = 0;
  double a_memory = 0;
  bool a_oom = false;  // the KV cache's budget counts
  std::int64_t f_nodes = 0, f_tp = 0, f_ep = 0, f_workers = 0;
  double f_memory = 0;
  bool f_oom = false;
  AfdLayerFigures headline, prefill_layer, decode_layer;  // headline: of the phase that ran alone
  double ttft = 0, tpot = 0, request_latency = 0;
  double b_total = 0, b_micro_total = 0;
  double tokens_s = 0, tokens_s_gpu = 0, tokens_s_user = 0;
  double seq_s = 0, request_rate = 0, concurrency = 0;
  std::string parallel;
  std::string pipeline_model;
  std::int64_t num_microbatches = 0, nextn = 0;
  bool combined_with_pd = false, boundary_on_attn = true;
  std::optional<AfdPartner> partner;
  std::string prefill_implementation, decode_implementation;  // "static_ctx", "afd", ...; "" none
  std::int64_t num_total_gpus = 0;
  double memory = 0;
  std::string backend, version, system;
  double power_w = NAN;
};
// `round_memory`: the sides' memory to two decimals, as the reference shows it.
AfdFigures FiguresOf(const AfdRow& row, bool round_memory);

// Sets the rates that follow from tpot, at `total_batch` requests: all zero for tpot 0.
void FillAfdRates(AfdRow& row);

// A decode row under speculation: `accepted` drafts per iteration shorten the time per token and
// raise the rates. `round`: to three decimals afterwards, as the reference does.
void ProjectSpeculation(AfdRow& row, double accepted, bool round);

}  // namespace infercast
