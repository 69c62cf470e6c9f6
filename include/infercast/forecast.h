// Forecasts of whole deployments: one that is given (Estimate), the best ones on some GPUs (Sweep),
// and the smallest ones that carry a load (Recommend).
//
//   infercast::SweepOptions options;
//   options.model.model = "Qwen/Qwen3-32B";
//   options.model.data.system = "h200_sxm";
//   options.total_gpus = 8;
//   auto found = infercast::Sweep(options);
//   for (const infercast::Forecast& f : found->Best().best) { ... }
//
// Units: milliseconds, tokens, requests and tokens per second, GiB = 2^30 bytes, watts. tokens/s
// counts generated tokens; per-GPU figures divide by all GPUs of all workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infercast/engine.h"
#include "infercast/error.h"
#include "infercast/model_options.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
struct WorkloadOptions {
  std::int64_t isl = 4000;        // input tokens of a request
  std::int64_t osl = 1000;        // generated tokens of a request
  std::int64_t prefix = 0;        // input tokens whose KV is already cached (counted in isl)
  std::int64_t image_height = 0;  // pixels; 0: no images
  std::int64_t image_width = 0;
  std::int64_t num_images = 1;  // per request
};

// One kind of worker of a deployment.
struct WorkerForecast {
  std::string role;  // "worker", "prefill", "decode", "attention", "ffn", "encoder"
  std::string model;
  std::string system;
  std::string backend;
  std::string version;
  Parallelism parallelism;
  std::string parallel;         // "tp2pp1dp1etp1ep1"
  std::int64_t workers = 1;     // how many of them
  std::int64_t gpus = 1;        // of one
  std::int64_t batch_size = 0;  // requests per data-parallel rank
  NumberFormats formats;
  double memory_gib = 0;  // of one GPU; the parts below
  double weights_gib = 0;
  double activations_gib = 0;
  double kvcache_gib = 0;
};

struct PhaseCost {
  std::string name;  // "mix_step", "genonly_step", "prefill", "decode", "encoder" ...
  Breakdown operators;
};

// One deployment and its figures.
struct Forecast {
  std::string mode;  // "agg", "disagg", "afd", "static", "static_ctx", "static_gen"
  std::int64_t isl = 0, osl = 0, prefix = 0;
  double ttft_ms = 0;
  double tpot_ms = 0;
  double request_latency_ms = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tokens_per_s_per_user = 0;
  double requests_per_s = 0;
  double concurrency = 0;  // requests in flight
  std::int64_t num_gpus = 0;
  double encoder_latency_ms = 0;
  double context_latency_ms = 0;     // static modes
  double generation_latency_ms = 0;  // static modes
  std::optional<double> power_w;     // per GPU; nullopt: too few operators have measured power
  bool fits = true;                  // in memory, KV cache included
  std::vector<WorkerForecast> workers;

  // Set in what Sweep and Recommend pick.
  std::optional<double> tokens_per_s_per_gpu_cluster;  // per GPU of the cluster, idle ones included
  std::optional<std::int64_t> replicas;       // copies of the deployment that carry the load
  std::optional<std::int64_t> total_gpus;     // of all copies
  std::optional<double> load_served_percent;  // where a GPU ceiling capped it

  // Set by Estimate.
  std::vector<PhaseCost> phases;
  std::vector<std::string> notes;
};

// A worker pool of a disaggregated deployment.
struct PoolOptions {
  Parallelism parallelism;
  std::int64_t batch_size = 1;
  std::int64_t workers = 1;
};

struct EstimateOptions {
  ModelOptions model;  // with the layout of the worker (aggregated and static modes)
  // "agg": continuous batching; "disagg": a prefill and a decode pool; "static", "static_ctx",
  // "static_gen": one batch, both phases or one.
  std::string mode = "agg";
  WorkloadOptions workload{.isl = 1024, .osl = 1024};
  std::int64_t batch_size = 128;           // requests in flight per data-parallel rank
  std::optional<std::int64_t> ctx_tokens;  // prefill tokens per step; default: the input length
  PoolOptions prefill, decode;             // disagg
  std::string decode_system;               // disagg; empty: the same
  std::optional<double> nextn_accepted;    // draft tokens accepted per step, where nextn > 0
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::uint32_t stride = 32;  // static modes: decode steps between samples
  bool bounds = false;        // tell what bounds each operator, too
};

// kDoesNotFit, kInvalidArgument, kUnsupportedModel, kPerfDatabase, kUnknownName ...
INFERCAST_API Result<Forecast> Estimate(const EstimateOptions& options);

struct SweepOptions {
  // `parallelism` is ignored: layouts are what is searched. An empty backend: all measured ones.
  ModelOptions model;
  std::string decode_system;  // of decode pools; empty: the same
  WorkloadOptions workload;
  double ttft_ms = 2000;  // targets
  double tpot_ms = 30;
  std::optional<double> request_latency_ms;  // replaces both targets
  bool strict = false;                       // drop what misses the targets
  std::optional<double> nextn_accepted;
  bool chunked_prefill = false;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::vector<std::string> modes = {"agg", "disagg"};
  std::int64_t top_n = 5;
  std::int64_t total_gpus = 8;  // GPUs of the cluster (Sweep)
};

struct RecommendOptions {
  SweepOptions search;  // total_gpus is ignored
  // Exactly one of the two.
  std::optional<double> request_rate;  // requests per second
  std::optional<double> concurrency;   // requests in flight
  std::optional<std::int64_t> max_gpus;
};

// One way to serve (a mode under a backend).
struct SearchExperiment {
  std::string name;
  std::vector<Forecast> best;   // picked, best first
  std::vector<Forecast> front;  // Pareto front: user speed against throughput per GPU
  double best_value = 0;        // comparable between experiments
  bool exceeded = false;        // nothing meets the targets: the nearest are shown
};

struct SearchResult {
  std::string chosen;  // name of the best experiment
  std::vector<SearchExperiment> experiments;
  std::vector<std::string> notes;  // experiments that failed or were left out, and why

  // The chosen experiment. The result must not be empty (Sweep and Recommend never answer that).
  INFERCAST_API const SearchExperiment& Best() const;
};

// The best deployments on `total_gpus`, one experiment for each backend and serving mode. Runs on
// all processors; the answer does not depend on their number. kNoFeasibleConfig, kPerfDatabase,
// kUnknownName, kInvalidArgument ...
INFERCAST_API Result<SearchResult> Sweep(const SweepOptions& options);

// The fewest GPUs that carry a load. Errors as above.
INFERCAST_API Result<SearchResult> Recommend(const RecommendOptions& options);

}  // namespace v1
}  // namespace infercast
