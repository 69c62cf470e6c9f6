// Estimate, Sweep and Recommend: requests in, rows out.
#include <cmath>
#include <span>

#include "api/internal.h"
#include "search/estimate_score.h"
#include "search/experiments.h"
#include "search/open_estimate.h"
#include "search/standard_runs.h"
#include "search/workbench.h"
#include "serving/afd_row.h"

namespace infercast::v1 {

using internal::Guarded;

namespace {

infercast::Workload WorkloadOf(const WorkloadOptions& w) {
  infercast::Workload out;
  out.isl = w.isl;
  out.osl = w.osl;
  out.prefix = w.prefix;
  out.image_height = w.image_height;
  out.image_width = w.image_width;
  out.num_images = w.num_images;
  return out;
}

std::optional<std::string> Given(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

WorkerForecast WorkerOf(const char* role, const infercast::WorkerIdentity& id) {
  WorkerForecast out;
  out.role = role;
  out.model = id.model;
  out.system = id.system;
  out.backend = infercast::ToString(id.backend);
  out.version = id.version;
  out.parallelism = internal::ParallelismOf(id.layout);
  out.parallel = id.parallel;
  out.gpus = id.layout.GpusPerWorker();
  out.formats = internal::FormatsOf(id.quant);
  return out;
}

void SetMemory(WorkerForecast& worker, const infercast::MemoryUsage& memory) {
  worker.memory_gib = memory.total;
  worker.weights_gib = memory.weights;
  worker.activations_gib = memory.activations;
  worker.kvcache_gib = memory.kvcache;
}

WorkerForecast WorkerOf(const char* role, const infercast::WorkerRow& row, std::int64_t count) {
  WorkerForecast out = WorkerOf(role, *row.worker);
  out.workers = count;
  out.batch_size = row.bs;
  SetMemory(out, row.memory);
  return out;
}

// The figures that every kind of row has.
template <typename Row>
void SetFigures(const Row& row, Forecast& out) {
  out.isl = row.isl;
  out.osl = row.osl;
  out.ttft_ms = row.ttft;
  out.tpot_ms = row.tpot;
  out.request_latency_ms = row.request_latency;
  out.tokens_per_s = row.tokens_s;
  out.tokens_per_s_per_gpu = row.tokens_s_gpu;
  out.tokens_per_s_per_user = row.tokens_s_user;
  out.requests_per_s = row.seq_s;
  out.concurrency = row.concurrency;
  out.num_gpus = row.num_total_gpus;
}

FormulaFigures FormulaOf(const Forecast& f) {
  return {f.ttft_ms,
          f.tpot_ms,
          f.request_latency_ms,
          f.tokens_per_s,
          f.tokens_per_s_per_gpu,
          f.tokens_per_s_per_user,
          f.requests_per_s,
          f.concurrency};
}

Distribution DistributionOf(const infercast::Distribution& d) {
  return {d.mean, d.median, d.p90, d.p99};
}

ServingForecast ServingOf(const infercast::ServingRun& run) {
  const infercast::ServingForecast& f = run.forecast;
  ServingForecast out;
  if (run.load.concurrency > 0) {
    out.concurrency = run.load.concurrency;
  } else {
    out.rate = run.load.rate;
  }
  out.requests = f.requests;
  out.shortest = run.load.shortest;
  out.seed = run.load.seed;
  out.ttft_ms = DistributionOf(f.ttft);
  out.tpot_ms = DistributionOf(f.tpot);
  out.ttft_interval_ms = {run.intervals.ttft.low, run.intervals.ttft.high};
  out.tpot_interval_ms = {run.intervals.tpot.low, run.intervals.tpot.high};
  out.ttft_parts_ms = {f.parts.front_end, f.parts.polling, f.parts.queue, f.parts.prefill,
                       f.parts.transfer};
  out.requests_per_s = f.requests_per_s;
  out.output_tokens_per_s = f.output_tokens_per_s;
  out.request_latency_ms = f.mean_latency_ms;
  out.mean_running = f.mean_running;
  out.context_step_share = f.context_step_share;
  out.peak_kv_share = f.peak_kv_share;
  return out;
}

// Figures of a run, by name as ReplicaScore and EstimateFigures have them.
template <typename Figures>
void SetRunFigures(const Figures& figures, Forecast& out) {
  out.scored_by = "closed_loop";
  out.ttft_ms = figures.ttft;
  out.tpot_ms = figures.tpot;
  out.request_latency_ms = figures.request_latency;
  out.tokens_per_s = figures.tokens_s;
  out.tokens_per_s_per_gpu = figures.tokens_s_gpu;
  out.tokens_per_s_per_user = figures.tokens_s_user;
  out.requests_per_s = figures.seq_s;
}

constexpr double kEnoughPower = 0.9;  // of the latency must have measured power

void SetPower(double power_w, double coverage, Forecast& out) {
  if (coverage >= kEnoughPower && std::isfinite(power_w)) out.power_w = power_w;
}

Forecast ForecastOf(const infercast::AggregatedRow& row) {
  Forecast out;
  out.mode = "agg";
  SetFigures(row, out);
  out.prefix = row.prefix;
  out.encoder_latency_ms = row.encoder_latency;
  out.fits = row.verdict.fits();
  SetPower(row.power_w, row.power_coverage, out);
  out.workers.push_back(WorkerOf("worker", row, 1));
  return out;
}

Forecast ForecastOf(const infercast::StaticRow& row, const char* mode) {
  Forecast out;
  out.mode = mode;
  SetFigures(row, out);
  out.prefix = row.prefix;
  out.encoder_latency_ms = row.encoder_latency;
  out.context_latency_ms = row.context_latency;
  out.generation_latency_ms = row.generation_latency;
  out.fits = row.verdict.fits();
  SetPower(row.power_w, row.power_coverage, out);
  out.workers.push_back(WorkerOf("worker", row, 1));
  return out;
}

Forecast ForecastOf(const infercast::DisaggregatedRow& row) {
  Forecast out;
  out.mode = "disagg";
  SetFigures(row, out);
  out.prefix = row.prefix;
  out.encoder_latency_ms = row.encoder_latency;
  out.fits = row.fits();
  SetPower(row.power_w, std::min(row.prefill.power_coverage, row.decode.power_coverage), out);
  out.workers.push_back(WorkerOf("prefill", row.prefill, row.prefill_workers));
  out.workers.push_back(WorkerOf("decode", row.decode, row.decode_workers));
  return out;
}

Forecast ForecastOf(const infercast::AfdRow& row) {
  Forecast out;
  out.mode = "afd";
  SetFigures(row, out);
  out.fits = row.fits();
  const infercast::AfdFigures figures = infercast::FiguresOf(row, false);
  WorkerForecast attention = WorkerOf("attention", *row.attention_worker);
  attention.workers = figures.a_workers;
  attention.gpus = figures.a_tp;
  attention.batch_size = figures.a_bs;
  SetMemory(attention, row.attention_memory.usage);
  WorkerForecast ffn = WorkerOf("ffn", *row.ffn_worker);
  ffn.workers = figures.f_workers;
  ffn.gpus = figures.f_tp;
  SetMemory(ffn, row.ffn_memory.usage);
  out.workers.push_back(std::move(attention));
  out.workers.push_back(std::move(ffn));
  if (row.partner) {
    WorkerForecast partner =
        WorkerOf(row.partner->prefills ? "prefill" : "decode", *row.partner->worker);
    partner.workers = row.partner->workers;
    partner.batch_size = row.partner->bs;
    partner.gpus = row.partner->gpus_per_worker;
    out.workers.push_back(std::move(partner));
  }
  return out;
}

Forecast ForecastOf(const infercast::TaskRow& row) {
  Forecast out = std::visit([](const auto& figures) { return ForecastOf(figures); }, row.figures);
  if (row.encoders) {
    WorkerForecast encoder;
    encoder.role = "encoder";
    encoder.model = out.workers.front().model;
    encoder.system = out.workers.front().system;
    encoder.backend = out.workers.front().backend;
    encoder.version = out.workers.front().version;
    encoder.parallelism.tp = row.encoders->tp;
    encoder.gpus = row.encoders->tp;
    encoder.workers = row.encoders->workers;
    encoder.batch_size = row.encoders->bs;
    encoder.memory_gib = row.encoders->memory;
    if (row.aggregated() != nullptr) out.workers.front().workers = row.encoders->language_workers;
    out.workers.push_back(std::move(encoder));
  }
  out.formula = FormulaOf(out);
  if (row.score) SetRunFigures(*row.score, out);
  if (row.run) out.serving = ServingOf(*row.run);
  return out;
}

Result<infercast::ScoredBy> ScoreOf(const std::string& name, infercast::Behaviour behaviour) {
  if (name.empty()) return infercast::DefaultScore(behaviour);
  API_ASSIGN(const auto score, internal::ParseName<infercast::ScoredBy>(name));
  if (behaviour != infercast::Behaviour::kNative && score == infercast::ScoredBy::kClosedLoop) {
    return internal::Refuse(ErrorKind::kInvalidArgument,
                            "score 'closed-loop' goes with the native behaviour only");
  }
  return score;
}

Result<infercast::BenchmarkLoad> LoadOf(const LoadOptions& options) {
  infercast::BenchmarkLoad load;
  if (options.concurrency) {
    const double n = *options.concurrency;
    if (!(std::abs(n) <= 1e9 && n == std::floor(n))) {
      return internal::Refuse(
          ErrorKind::kInvalidArgument,
          fmt::format("concurrency is {}: expected a whole number of requests in flight", n));
    }
    load.concurrency = static_cast<std::int64_t>(n);
  }
  load.rate = options.rate;
  load.requests = options.num_requests;
  load.shortest = options.shortest;
  load.seed = options.seed;
  load.token_budget = options.token_budget;
  load.poll_interval = options.poll_interval;
  load.hold_steps = options.hold_steps;
  load.max_requests = options.max_num_seqs;
  load.corrections = options.corrections;
  load.bare = options.no_corrections;
  load.recipe = options.recipe;
  return load;
}

void SetPool(const PoolOptions& from, infercast::PoolSizes& to) {
  to.tp = from.parallelism.tp;
  to.pp = from.parallelism.pp;
  to.dp = from.parallelism.dp;
  to.moe_tp = from.parallelism.moe_tp;
  to.moe_ep = from.parallelism.moe_ep;
  to.batch = from.batch_size;
  to.workers = from.workers;
}

// What `open` leaves to the estimate, and `notes` tell of what was filled in, is as in the program.
Result<infercast::EstimateRequest> RequestOf(const EstimateOptions& options,
                                             infercast::Workbench& bench,
                                             infercast::OpenChoices& open,
                                             std::vector<std::string>& notes) {
  const ModelOptions& model = options.model;
  infercast::EstimateRequest request;
  API_ASSIGN(request.mode, internal::ParseName<infercast::EstimateMode>(options.mode));
  if (request.mode == infercast::EstimateMode::kAfd) {
    return internal::Refuse(ErrorKind::kInvalidArgument,
                            "mode 'afd' is searched (Sweep), not estimated point by point");
  }
  API_ASSIGN(const infercast::SystemsCatalog::OpenRequest data,
             internal::OpenRequestOf(model.data));
  request.model = model.model;
  request.system = data.system;
  request.decode_system = Given(options.decode_system);
  request.backend = data.backend;
  request.version = data.version;
  request.database_mode = data.mode;
  request.policy = data.policy;
  request.behaviour = data.behaviour;
  request.allow_unlisted_versions = data.allow_unlisted;
  request.workload = WorkloadOf(options.workload);
  API_ASSIGN(const auto config, bench.Model(model.model));
  const bool native = data.behaviour == infercast::Behaviour::kNative;
  request.layout = internal::LayoutOf(model.parallelism, config->IsMoe() && !native);
  request.batch = options.batch_size;
  request.ctx_tokens = options.ctx_tokens;
  request.stride = options.stride;
  request.bounds = options.bounds;
  if (request.mode == infercast::EstimateMode::kDisagg) {
    SetPool(options.prefill, request.prefill);
    SetPool(options.decode, request.decode);
    infercast::FillPools(request, notes);
  }
  const auto no_experts = [](const auto& sizes) { return !sizes.moe_tp && !sizes.moe_ep; };
  open.experts = native && no_experts(request.layout) && no_experts(request.prefill) &&
                 no_experts(request.decode);
  open.estimates = native && model.data.mode.empty();
  API_ASSIGN(request.quant, internal::FormatsOf(model.formats));
  request.nextn = model.nextn;
  request.nextn_accepted = options.nextn_accepted;
  request.memory_fraction = options.memory_fraction;
  request.max_seq_len = options.max_seq_len;
  request.attention_backend = Given(model.attention_backend);
  request.moe_backend = Given(model.moe_backend);
  return request;
}

Result<infercast::RunRequest> RequestOf(const SweepOptions& options) {
  infercast::RunRequest request;
  DatabaseOptions data = options.model.data;
  const bool any_backend = data.backend.empty() || data.backend == "any" || data.backend == "auto";
  if (any_backend) data.backend = "trtllm";
  API_ASSIGN(const infercast::SystemsCatalog::OpenRequest open, internal::OpenRequestOf(data));
  request.model = options.model.model;
  request.system = open.system;
  request.decode_system = Given(options.decode_system);
  request.backend = any_backend ? std::nullopt : std::optional(open.backend);
  request.version = open.version;
  request.database_mode = open.mode;
  request.policy = open.policy;
  request.behaviour = open.behaviour;
  request.allow_unlisted_versions = open.allow_unlisted;
  request.workload = WorkloadOf(options.workload);
  request.ttft = options.ttft_ms;
  request.tpot = options.tpot_ms;
  request.request_latency = options.request_latency_ms;
  request.strict = options.strict;
  request.nextn = options.model.nextn;
  request.nextn_accepted = options.nextn_accepted;
  request.chunked_prefill = options.chunked_prefill;
  request.memory_fraction = options.memory_fraction;
  request.max_seq_len = options.max_seq_len;
  request.moe_backend = Given(options.model.moe_backend);
  request.attention_backend = Given(options.model.attention_backend);
  API_ASSIGN(request.quant, internal::FormatsOf(options.model.formats));
  request.modes.clear();
  for (const std::string& mode : options.modes) {
    API_ASSIGN(const auto parsed, internal::ParseName<infercast::ServingMode>(mode));
    request.modes.push_back(parsed);
  }
  if (options.top_n < 1) {
    return internal::Refuse(ErrorKind::kInvalidArgument,
                            fmt::format("top_n is {}: expected 1 or more", options.top_n));
  }
  request.top_n = static_cast<std::size_t>(options.top_n);
  API_ASSIGN(request.score, ScoreOf(options.score, request.behaviour));
  return request;
}

Forecast PickedOf(const infercast::PickedRow& picked, bool for_load) {
  Forecast out = ForecastOf(picked.row);
  out.tokens_per_s_per_gpu_cluster = picked.pick.tokens_s_gpu_cluster;
  if (for_load) {
    out.replicas = picked.pick.replicas_needed;
    out.total_gpus = picked.pick.total_gpus_needed;
    out.load_served_percent = picked.pick.load_served_percent;
  }
  return out;
}

SearchResult ResultOf(const infercast::ExperimentsResult& found, bool for_load) {
  SearchResult out;
  out.chosen = found.chosen;
  for (const infercast::ExperimentResult& r : found.results) {
    SearchExperiment& experiment = out.experiments.emplace_back();
    experiment.name = r.name;
    experiment.best_value = r.best_value;
    experiment.exceeded = r.exceeded;
    for (const auto& row : r.best) experiment.best.push_back(PickedOf(row, for_load));
    for (const auto& row : r.front) experiment.front.push_back(PickedOf(row, for_load));
  }
  for (const infercast::ExperimentOutcome& outcome : found.outcomes) {
    if (outcome.error) out.notes.push_back(outcome.name + ": " + outcome.error->message);
    for (const std::string& note : outcome.table.notes) {
      out.notes.push_back(outcome.name + ": " + note);
    }
  }
  return out;
}

}  // namespace

Result<Forecast> Estimate(const EstimateOptions& options) {
  return Guarded<Forecast>([&]() -> Result<Forecast> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(options.model.data));
    infercast::Workbench bench(around.systems, around.checkpoints);
    infercast::OpenChoices open;
    std::vector<std::string> notes;
    API_ASSIGN(const infercast::EstimateRequest given, RequestOf(options, bench, open, notes));
    API_ASSIGN(const infercast::ScoredBy score, ScoreOf(options.score, given.behaviour));
    API_ASSIGN(const infercast::BenchmarkLoad load, LoadOf(options.load));
    API_ASSIGN(const infercast::ChosenEstimate chosen,
               infercast::EstimateWithChoices(given, open, bench));
    const infercast::EstimateRequest& request = chosen.request;
    const infercast::PointEstimate& estimate = chosen.point;
    API_ASSIGN(const infercast::ScoredEstimate scored,
               infercast::ScoreEstimate(request, estimate, load, score));
    Forecast out = estimate.static_row ? ForecastOf(*estimate.static_row, options.mode.c_str())
                                       : ForecastOf(*estimate.row);
    out.formula = FormulaOf(out);
    if (scored.closed_loop) {
      SetRunFigures(scored.figures, out);
      out.concurrency = scored.figures.concurrency;
    }
    if (scored.run) out.serving = ServingOf(*scored.run);
    out.power_w = estimate.power_w;
    if (estimate.kv_warning || estimate.out_of_memory) out.fits = false;
    for (const infercast::EstimatePhase& phase : estimate.phases) {
      out.phases.push_back({phase.name, internal::BreakdownOf(phase.operators)});
      for (std::size_t i = 0; i < phase.bounds.size(); ++i) {
        OperatorCost& cost = out.phases.back().operators[i];
        cost.bound = infercast::ToString(phase.bounds[i].bound);
        cost.attained = phase.bounds[i].attained.value_or(0);
        cost.count = phase.bounds[i].count;
      }
    }
    out.notes = std::move(notes);
    out.notes.insert(out.notes.end(), chosen.notes.begin(), chosen.notes.end());
    out.notes.insert(out.notes.end(), scored.notes.begin(), scored.notes.end());
    for (const std::string& note : estimate.notes) out.notes.push_back(note);
    if (estimate.kv_warning) out.notes.push_back(*estimate.kv_warning);
    if (estimate.out_of_memory) out.notes.emplace_back("this does not fit in GPU memory");
    return out;
  });
}

const SearchExperiment& SearchResult::Best() const {
  for (const SearchExperiment& experiment : experiments) {
    if (experiment.name == chosen) return experiment;
  }
  return experiments.front();
}

Result<SearchResult> Sweep(const SweepOptions& options) {
  return Guarded<SearchResult>([&]() -> Result<SearchResult> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(options.model.data));
    infercast::Workbench bench(around.systems, around.checkpoints);
    API_ASSIGN(const infercast::RunRequest request, RequestOf(options));
    API_ASSIGN(const infercast::ExperimentsResult found,
               infercast::RunDefault(request, options.total_gpus, bench));
    return ResultOf(found, false);
  });
}

Result<SearchResult> Recommend(const RecommendOptions& options) {
  return Guarded<SearchResult>([&]() -> Result<SearchResult> {
    API_ASSIGN(const internal::Surroundings around,
               internal::OpenSurroundings(options.search.model.data));
    infercast::Workbench bench(around.systems, around.checkpoints);
    SweepOptions search = options.search;
    // A load is planned before everything is measured: estimates are welcome.
    if (search.model.data.mode.empty()) search.model.data.mode = "HYBRID";
    API_ASSIGN(const infercast::RunRequest request, RequestOf(search));
    const infercast::LoadTarget load{options.request_rate, options.concurrency, options.max_gpus};
    const bool nextn_given = options.search.model.nextn != 0;
    API_ASSIGN(const infercast::ExperimentsResult found,
               infercast::RunRecommend(request, load, nextn_given, bench));
    return ResultOf(found, true);
  });
}

}  // namespace infercast::v1
