#include "search/estimate_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/row_runner.h"
#include "serving/correction_settings.h"

namespace infercast {

namespace {

// Of the time over which requests arrive: what late ones wait where the queue grows, at least.
constexpr double kGrowingQueue = 0.02;

// Tokens that a request gains by a decode step.
double ProgressOf(const EstimateRequest& request, const Worker& worker) {
  if (worker.plan().nextn == 0) return 1;
  return 1 + std::clamp(request.nextn_accepted.value_or(0), 0.0,
                        static_cast<double>(worker.plan().nextn));
}

Result<ServingRun> RunOf(const EstimateRequest& request, const PointEstimate& point,
                         const BenchmarkLoad& asked, std::vector<std::string>& notes) {
  const bool pools = request.mode == EstimateMode::kDisagg;
  if (point.workers.empty() || (pools && point.workers.size() < 2)) {
    return Fail(ErrorKind::kInternal, "the estimate names no workers");
  }
  ReplicaSpec replica;
  // Pools stand in the order prefill, decode.
  replica.worker = point.workers[pools ? 1 : 0];
  replica.memory_fraction = request.memory_fraction;
  if (pools) {
    replica.prefill = point.workers[0];
    replica.prefill_workers = request.prefill.workers.value_or(1);
    replica.decode_workers = request.decode.workers.value_or(1);
    replica.prefill_batch = request.prefill.batch;
    if (request.decode.memory_fraction) replica.memory_fraction = request.decode.memory_fraction;
  } else {
    replica.ctx_tokens = request.ctx_tokens;
    replica.batch = request.batch;
  }
  const Worker& worker = *replica.worker;

  const std::int64_t batch = pools ? request.decode.batch.value_or(request.batch) : request.batch;
  const std::int64_t own = asked.rate ? 0 : batch * replica.decode_ranks();
  LoadSpec load = ClosedLoad(request.workload, worker, asked.concurrency.value_or(own),
                             ProgressOf(request, worker));
  load.requests = asked.requests.value_or(0);
  load.shortest = asked.shortest.value_or(load.shortest);
  load.seed = asked.seed.value_or(load.seed);
  load.rate = asked.rate.value_or(0);

  const std::int64_t in_flight = std::max<std::int64_t>(load.concurrency, 1);
  BatchPolicy policy = PolicyOf(replica, in_flight, load.isl);
  if (asked.recipe) {
    std::string flags;
    const ParallelLayout& layout = worker.plan().layout;
    const BatchPolicy published = BenchmarkRecipe(
        {worker.backend(), &worker.system(), request.model, PublishedPrecision(worker.plan().quant),
         in_flight, load.isl, load.osl, layout.tp, layout.dp},
        &flags);
    policy.poll_interval = published.poll_interval;
    if (!pools) {
      policy.wait_steps = published.wait_steps;
      policy.wait_budget_share = published.wait_budget_share;
    }
    if (!pools && !request.ctx_tokens) policy.token_budget = published.token_budget;
    if (!flags.empty()) notes.push_back("benchmark recipe: " + flags);
  }
  if (asked.token_budget) policy.token_budget = *asked.token_budget;
  if (asked.poll_interval) policy.poll_interval = *asked.poll_interval;
  if (asked.hold_steps) policy.hold_steps = *asked.hold_steps;
  if (asked.max_requests) policy.max_requests = *asked.max_requests;

  ServingCorrections corrections = asked.bare ? NoCorrections() : CorrectionsOf(replica);
  IC_ASSIGN(const CorrectionSettings settings, ParseCorrections(asked.corrections));
  IC_RETURN_IF_ERROR(ApplyCorrections(settings, corrections));
  IC_ASSIGN(ReplicaSimulator simulator, ReplicaSimulator::Create(replica));
  return simulator.Record(policy, corrections, load);
}

// What was given, before anything stands for what was not.
Status CheckGiven(const BenchmarkLoad& load) {
  const auto positive = [](const std::optional<std::int64_t>& value, const char* what) -> Status {
    if (!value || *value >= 1) return {};
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} is {}: expected 1 or more", what, *value));
  };
  IC_RETURN_IF_ERROR(positive(load.concurrency, "concurrency"));
  IC_RETURN_IF_ERROR(positive(load.requests, "number of requests"));
  if (load.rate && !(std::isfinite(*load.rate) && *load.rate > 0)) {
    return Fail(
        ErrorKind::kInvalidArgument,
        fmt::format("request rate is {}: expected requests per second above 0", *load.rate));
  }
  if (load.concurrency && load.rate) {
    return Fail(ErrorKind::kInvalidArgument,
                "give either a concurrency or a request rate, not both");
  }
  return {};
}

// Open arrivals that outrun the deployment queue the longer, the later they come. Most of the time
// to first token is then the queue's, and says more of the length of the run than of the
// deployment.
std::optional<std::string> Overload(const ServingRun& run) {
  const ServingForecast& f = run.forecast;
  if (!(run.load.rate > f.requests_per_s)) return std::nullopt;
  const double unqueued = f.ttft.mean - f.parts.queue;
  const double arrivals_ms = static_cast<double>(f.requests) / run.load.rate * 1000;
  if (f.parts.queue < unqueued || f.ttft.p90 - unqueued < kGrowingQueue * arrivals_ms) {
    return std::nullopt;
  }
  return fmt::format(
      "cannot keep up with {:g} requests/s ({:.3g} were served): the time to first token grows "
      "with the length of the run",
      run.load.rate, f.requests_per_s);
}

// The same figures as the run has them.
EstimateFigures RunFigures(const EstimateFigures& formula, const ServingRun& run) {
  EstimateFigures f = formula;
  const ReplicaScore score = ScoreOf(run.forecast, run.load.osl, f.gpus);
  f.ttft = score.ttft;
  f.tpot = score.tpot;
  f.request_latency = score.request_latency;
  f.tokens_s = score.tokens_s;
  f.tokens_s_gpu = score.tokens_s_gpu;
  f.tokens_s_user = score.tokens_s_user;
  f.seq_s = score.seq_s;
  // Open arrivals: requests in the system on average.
  f.concurrency = run.load.concurrency > 0
                      ? static_cast<double>(run.load.concurrency)
                      : run.forecast.requests_per_s * run.forecast.mean_latency_ms / 1000;
  return f;
}

}  // namespace

bool BenchmarkLoad::given() const {
  return concurrency || rate || requests || shortest || seed || token_budget || poll_interval ||
         hold_steps || max_requests || !corrections.empty() || bare || recipe;
}

bool HasBenchmark(EstimateMode mode) {
  return mode == EstimateMode::kAgg || mode == EstimateMode::kDisagg;
}

EstimateFigures FormulaFigures(const PointEstimate& point) {
  const auto of = [](const auto& r, double encoder_latency) {
    return EstimateFigures{r.ttft,          r.tpot,          r.request_latency, r.tokens_s,
                           r.tokens_s_gpu,  r.tokens_s_user, r.seq_s,           r.concurrency,
                           encoder_latency, r.num_total_gpus};
  };
  if (point.static_row) return of(*point.static_row, point.static_row->encoder_latency);
  if (const AggregatedRow* a = point.row->aggregated()) return of(*a, a->encoder_latency);
  if (const DisaggregatedRow* d = point.row->disaggregated()) return of(*d, d->encoder_latency);
  return of(*point.row->afd(), 0);
}

Result<ScoredEstimate> ScoreEstimate(const EstimateRequest& request, const PointEstimate& point,
                                     const BenchmarkLoad& load, ScoredBy score, bool wanted) {
  ScoredEstimate out;
  out.figures = out.formula = FormulaFigures(point);
  wanted = wanted || load.given();
  const bool by_run = score == ScoredBy::kClosedLoop;
  if (!HasBenchmark(request.mode)) {
    if (wanted) {
      return Fail(ErrorKind::kInvalidArgument,
                  "a load (concurrency, rate ...) goes with the modes agg and disagg only");
    }
    if (by_run) {
      out.notes.push_back(
          fmt::format("scored by the formula: no benchmark is run in virtual time in the mode {}",
                      ToString(request.mode)));
    }
    return out;
  }
  if (!wanted && !by_run) return out;
  IC_RETURN_IF_ERROR(CheckGiven(load));
  // A run without its encoder would be that of another load.
  if (!point.row || !CanBeRun(*point.row)) {
    const std::string why = "the benchmark run in virtual time has no image encoder";
    if (wanted) {
      return Fail(ErrorKind::kInvalidArgument,
                  "a load (concurrency, rate ...) goes with text alone: " + why);
    }
    out.notes.push_back("scored by the formula: " + why);
    return out;
  }
  Result<ServingRun> run = RunOf(request, point, load, out.notes);
  if (!run) {
    // An error only where a run was asked for.
    if (wanted) return std::unexpected(run.error());
    out.notes.push_back("scored by the formula, not by a benchmark run in virtual time: " +
                        run.error().message);
    return out;
  }
  out.run = *std::move(run);
  if (std::optional<std::string> note = Overload(*out.run)) out.notes.push_back(*std::move(note));
  if (!by_run) return out;
  out.closed_loop = true;
  out.figures = RunFigures(out.formula, *out.run);
  return out;
}

std::string_view PublishedPrecision(const QuantModes& quant) {
  switch (quant.gemm) {
    case GemmQuant::kBfloat16:
      return quant.moe == MoeQuant::kBfloat16 ? "bf16" : "fp4";
    case GemmQuant::kFp8:
    case GemmQuant::kFp8Static:
    case GemmQuant::kFp8Block:
    case GemmQuant::kFp8Ootb:
      return "fp8";
    case GemmQuant::kNvfp4:
    case GemmQuant::kNvfp4Wo:
    case GemmQuant::kW4a16Nvfp4:
      return "fp4";
    default:
      return "";
  }
}

}  // namespace infercast
