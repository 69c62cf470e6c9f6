#include "search/estimate_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/row_runner.h"
#include "serving/correction_settings.h"

namespace infercast {

namespace {

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
  load.seed = asked.seed;
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
  return concurrency || rate || requests || shortest || token_budget || poll_interval ||
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
  Result<ServingRun> run = RunOf(request, point, load, out.notes);
  if (!run) {
    // An error only where a run was asked for.
    if (wanted) return std::unexpected(run.error());
    out.notes.push_back("scored by the formula, not by a benchmark run in virtual time: " +
                        run.error().message);
    return out;
  }
  out.run = *std::move(run);
  if (!by_run) return out;
  if (!point.row || !CanBeRun(*point.row)) {
    out.notes.emplace_back(
        "scored by the formula: the benchmark run in virtual time has no image encoder");
    return out;
  }
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
