// The figures of an attention/feed-forward disaggregated deployment.
//
// Units: ms; requests, tokens per second; GiB. NaN: the phase was not simulated.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "base/modes.h"

namespace infercast {

// One phase of the pipeline, by layer.
struct AfdLayerFigures {
  double attention = NAN;  // attention of one layer and micro-batch
  double feed_forward = NAN;
  double to_feed_forward = NAN;  // exchange towards the feed-forward nodes
  double to_attention = NAN;     // and back
  double communication = NAN;
  double step = NAN;
  double balance = NAN;             // attention against feed-forward
  std::optional<bool> comm_hidden;  // absent: not simulated
};

// The ordinary workers that serve the phase which the AFD pools do not.
struct AfdPartner {
  std::int64_t workers = 0, tp = 0, pp = 0, dp = 0, moe_tp = 0, moe_ep = 0, bs = 0, num_gpus = 0;
  std::string system, backend, version;
};

struct AfdRow {
  std::string model;
  std::string phase;  // prefill, decode or both
  std::int64_t isl = 0, osl = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t a_nodes = 0, a_tp = 0, a_bs = 0, a_micro_bs = 0, a_workers = 0;
  double a_memory = 0;
  bool a_oom = false;
  std::int64_t f_nodes = 0, f_tp = 0, f_ep = 0, f_workers = 0;
  double f_memory = 0;
  bool f_oom = false;
  AfdLayerFigures headline, prefill_layer, decode_layer;
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

}  // namespace infercast
