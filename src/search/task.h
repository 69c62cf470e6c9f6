// One experiment ("task"): what is served, on what, under which targets, and which deployments a
// search may try. A task is plain data as the user gives it; task_resolution.h turns it into
// models, databases, number formats and candidate layouts, and run_task.h runs it.
//
// Units: ms, tokens, GPUs, GiB. An absent option means "the documented default", an empty list "the
// default list of the backend".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/modes.h"
#include "models/model_plan.h"
#include "models/quantisation.h"
#include "search/candidates.h"
#include "serving/afd_topology.h"
#include "serving/workload.h"
#include "tables/database.h"

namespace infercast {

// Aggregated: every worker prefills and decodes. Disaggregated: a pool of prefill workers feeds a
// pool of decode workers. AFD: attention and feed-forward layers run on nodes of their own.
enum class ServingMode : std::uint8_t { kAggregated, kDisaggregated, kAfd };
template <>
struct EnumNames<ServingMode> {
  static constexpr std::string_view kType = "serving mode";
  static constexpr std::array<std::string_view, 3> kNames = {"agg", "disagg", "afd"};
};

// What a worker of one role is: the model and where it runs, and which layouts are tried.
struct RoleChoice {
  std::string model;   // bundled name, directory or config.json; "" = not given
  std::string system;  // "" = not given
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> version;  // literal or alias; absent: the current one
  bool enable_wideep = false;    // deprecated: changes nothing but the expert kernel's default
  bool chunked_prefill = false;  // finer grid of prefill tokens per step (aggregated)
  bool enable_eplb = false;      // expert load balancing
  QuantOverrides quant;          // absent modes follow the checkpoint
  CandidateLists lists;          // empty lists follow the backend

  bool operator==(const RoleChoice&) const = default;
};

// How the pools of a disaggregated deployment are put together.
struct DisaggregatedChoice {
  std::vector<std::int64_t> num_gpu_per_replica;  // allowed GPUs of one replica
  std::optional<std::int64_t> max_gpu_per_replica;
  std::optional<std::int64_t> max_prefill_workers;
  std::optional<std::int64_t> max_decode_workers;
  std::int64_t prefill_max_batch = 1;
  std::int64_t decode_max_batch = 512;
  double prefill_latency_correction = 1.1;
  double decode_latency_correction = 1.08;
  double prefill_degradation = 0.9;  // rate lost to imbalance between the pools
  double decode_degradation = 0.92;
  double encoder_degradation = 0.9;
  double ttft_queueing = 1.8;  // queueing in front of the prefill pool

  bool operator==(const DisaggregatedChoice&) const = default;
};

// A pool of encode workers in front (images only).
struct EncoderPoolChoice {
  bool enabled = false;
  std::vector<std::int64_t> tp;     // candidates
  std::vector<std::int64_t> batch;  // candidates, each at most 8
  std::optional<std::int64_t> max_workers;
  double latency_correction = 1.0;
  std::optional<std::string> system;  // absent: that of the workers that prefill

  bool operator==(const EncoderPoolChoice&) const = default;
};

// What to do when a search has more candidates than its limit.
enum class CandidateOverflow : std::uint8_t { kError, kTruncate };
template <>
struct EnumNames<CandidateOverflow> {
  static constexpr std::string_view kType = "candidate overflow";
  static constexpr std::array<std::string_view, 2> kNames = {"error", "truncate"};
};

// Attention/feed-forward disaggregation. Nodes are whole nodes of the system.
struct AfdChoice {
  std::optional<std::int64_t> total_gpus;  // absent: the task's
  bool combined_with_pd = true;            // the other phase runs on ordinary workers
  double comm_overhead_factor = 1.0;
  bool boundary_on_attn = true;
  std::optional<std::int64_t> total_batch;  // fixed batch over all attention workers
  std::int64_t max_a_batch = 1024;
  // A pinned topology: all or none.
  std::optional<std::int64_t> n_a_nodes, n_f_nodes, tp_a;
  std::optional<std::int64_t> a_batch;
  // Search lists; empty: default.
  std::vector<std::int64_t> tp_a_candidates;
  std::vector<std::int64_t> microbatch_candidates;
  std::vector<AfdPipeline> pipeline_candidates;
  // Numbers, or the words "n_f_nodes" and "tp_f".
  std::vector<std::string> f_moe_ep_candidates;
  double max_af_ratio = 4.0;
  std::int64_t max_candidates = 10000;
  CandidateOverflow candidate_overflow = CandidateOverflow::kError;
  std::vector<std::int64_t> prefill_batches;
  std::int64_t prefill_max_candidates = 256;
  CandidateOverflow prefill_candidate_overflow = CandidateOverflow::kError;
  std::optional<std::int64_t> max_prefill_gpus;
  std::optional<std::int64_t> max_prefill_workers;
  // Absent or 0: 0.9, 0.95 and 1.8.
  std::optional<double> prefill_degradation, decode_degradation, ttft_correction;
  double decode_latency_correction = 1.0;

  bool operator==(const AfdChoice&) const = default;
};

struct Task {
  ServingMode mode = ServingMode::kAggregated;

  // Workload and targets.
  Workload workload;
  bool encoder_data_parallel = true;
  double ttft = 1000;
  double tpot = 50;
  bool pareto_sweep = true;               // many per-token targets, not only `tpot`
  std::optional<double> request_latency;  // > 0 replaces both targets by pairs that make it
  std::optional<std::int64_t> total_gpus;
  DatabaseMode database_mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
  std::optional<double> memory_fraction;    // of GPU memory for the engine
  std::optional<std::int64_t> max_seq_len;  // KV length reserved per sequence
  ForwardModel forward_model = ForwardModel::kOperators;

  // Who serves: `worker` in aggregated and AFD mode, `prefill` and `decode` in disaggregated mode.
  RoleChoice worker;
  RoleChoice prefill;
  RoleChoice decode;

  // Of all roles.
  std::optional<std::int64_t> nextn = 0;  // draft tokens a step; absent: as the checkpoint has
  std::optional<double> nextn_accepted;   // needed where nextn > 0: accepted per step, 0 to nextn
  std::optional<std::string> moe_backend;
  std::optional<std::string> attention_backend;
  std::optional<std::int64_t> expert_slots;  // redundant experts included

  DisaggregatedChoice disagg;
  EncoderPoolChoice epd;
  AfdChoice afd;

  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted_versions = false;

  // The role that names the task: the only one, or the one that prefills.
  const RoleChoice& primary() const {
    return mode == ServingMode::kDisaggregated ? prefill : worker;
  }
  // GPUs that a deployment may use.
  std::optional<std::int64_t> gpu_budget() const {
    return mode == ServingMode::kAfd && afd.total_gpus ? afd.total_gpus : total_gpus;
  }

  bool operator==(const Task&) const = default;
};

}  // namespace infercast
