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
// Natively the figures of a deployment are those of a benchmark run in virtual time, like those of
// the program; the steady closed formula's stand beside. Estimate runs the given deployment; Sweep
// and Recommend search by the formula and run what they may show.
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

// Over the requests of a run, ms.
struct Distribution {
  double mean = 0, median = 0, p90 = 0, p99 = 0;
};

// In which measurements of such means have lain: the 10 % and 90 % points, ms.
struct Interval {
  double low = 0, high = 0;
};

// Means over the requests of a run, ms; they add up to the mean TTFT.
struct FirstTokenParts {
  double front_end = 0;  // client, transport, tokeniser; first piece on its way back
  double polling = 0;    // received, not yet seen by the scheduler
  double queue = 0;      // seen, waiting for its first step
  double prefill = 0;    // from its first step to the step that completes the prompt
  double transfer = 0;   // KV cache on its way to the decode worker (disaggregated)
};

// A benchmark run in virtual time. Its requests have `shortest` to 1 times the nominal lengths.
struct ServingForecast {
  std::optional<std::int64_t> concurrency;  // requests in flight, or
  std::optional<double> rate;               // open arrivals, requests per second
  std::int64_t requests = 0;
  double shortest = 0;
  std::uint64_t seed = 0;
  Distribution ttft_ms;  // as a client sees it
  Distribution tpot_ms;  // per token after the first
  Interval ttft_interval_ms, tpot_interval_ms;
  FirstTokenParts ttft_parts_ms;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double request_latency_ms = 0;  // mean
  double mean_running = 0;        // requests that decode, time average, all ranks and workers
  double context_step_share = 0;  // of the steps, those with prompts
  double peak_kv_share = 0;       // of the KV capacity, reserved at most
};

// Figures of a deployment by the steady closed formula.
struct FormulaFigures {
  double ttft_ms = 0;
  double tpot_ms = 0;
  double request_latency_ms = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tokens_per_s_per_user = 0;
  double requests_per_s = 0;
  double concurrency = 0;
};

// One deployment and its figures.
struct Forecast {
  std::string mode;  // "agg", "disagg", "afd", "static", "static_ctx", "static_gen"
  std::int64_t isl = 0, osl = 0, prefix = 0;
  // What the figures down to `concurrency` are: "closed_loop" (of the run; times are means,
  // request_latency_ms and requests_per_s those of requests of full length) or "formula".
  std::string scored_by = "formula";
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
  FormulaFigures formula;                  // the same as the figures where they are the formula's
  std::optional<ServingForecast> serving;  // the run, where there was one

  // Set in what Sweep and Recommend pick.
  std::optional<double> tokens_per_s_per_gpu_cluster;  // per GPU of the cluster, idle ones included
  std::optional<std::int64_t> replicas;       // copies of the deployment that carry the load
  std::optional<std::int64_t> total_gpus;     // of all copies
  std::optional<double> load_served_percent;  // where a GPU ceiling capped it

  // Set by Estimate.
  std::vector<PhaseCost> phases;
  std::vector<std::string> notes;
};

// Sizes of the workers of a pool; what is absent is that of the model's parallelism.
struct PoolParallelism {
  std::optional<std::int64_t> tp, pp, dp, moe_tp, moe_ep;
};

// A worker pool of a disaggregated deployment.
struct PoolOptions {
  PoolParallelism parallelism;
  std::optional<std::int64_t> batch_size;  // prefill: 1; decode: the estimate's batch_size
  std::optional<std::int64_t> workers;     // 1
};

// The load of the run of an estimate (modes "agg" and "disagg"). What is not set is the
// deployment's own or the backend's default.
struct LoadOptions {
  std::optional<double> concurrency;  // requests in flight, whole; default: batch x ranks x workers
  std::optional<double> rate;         // open arrivals instead: requests per second
  std::optional<std::int64_t> num_requests;   // default: 10 per request in flight; 512 at a rate
  std::optional<double> shortest;             // lengths from this share of isl and osl on; 0.8
  std::optional<std::uint64_t> seed;          // of lengths and arrivals; 1
  std::optional<std::int64_t> token_budget;   // tokens of a step
  std::optional<std::int64_t> poll_interval;  // decode steps between two looks at new requests
  std::optional<std::int64_t> hold_steps;     // prompts wait until every data-parallel rank has one
  std::optional<std::int64_t> max_num_seqs;   // requests that one rank serves at once
  std::vector<std::string> corrections;       // "name=value" (docs/accuracy.md)
  bool no_corrections = false;                // operators and scheduling alone
  bool recipe = false;                        // launch flags of the public nightly benchmark
};

struct EstimateOptions {
  // With the layout of the worker, and of pools what they do not say themselves. No parallelism is
  // tp 1; natively experts of which no width is given are whole on their ranks where that was
  // measured, else split over them.
  ModelOptions model;
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
  // What the figures are: "closed-loop" or "formula". Empty: closed-loop natively; in reference
  // behaviour it is always the formula.
  std::string score;
  LoadOptions load;  // with the formula a run is made only where one of these is set
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
  std::optional<double> request_latency_ms;  // target instead of tpot_ms
  bool strict = false;                       // drop what misses the targets
  std::optional<double> nextn_accepted;
  bool chunked_prefill = false;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::vector<std::string> modes = {"agg", "disagg"};
  std::int64_t top_n = 5;
  std::int64_t total_gpus = 8;  // GPUs of the cluster (Sweep)
  // What is shown is ranked, and held against the targets, by "closed-loop" (runs of the formula's
  // best rows) or "formula". Empty: as for an estimate.
  std::string score;
};

struct RecommendOptions {
  // total_gpus is ignored; an empty database mode is HYBRID.
  SweepOptions search;
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
