#include "cli/load_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/measured_flags.h"
#include "serving/replica_forecast.h"
#include "validation/calibration.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

ordered_json DistributionJson(const Distribution& d) {
  return {{"mean", d.mean}, {"median", d.median}, {"p90", d.p90}, {"p99", d.p99}};
}

// The label that collections of measurements give these formats.
std::string PrecisionOf(const QuantModes& quant) {
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

}  // namespace

void BenchmarkLoadFlags::Declare(CLI::App& command) {
  const char* group = "Load in virtual time (agg, disagg)";
  command
      .add_option("--concurrency", concurrency,
                  "Requests in flight: every completion sends the next (default: as many as "
                  "--batch-size says)")
      ->group(group);
  command.add_option("--rate", rate, "Open arrivals instead: requests per second")->group(group);
  command
      .add_option("--num-requests", requests,
                  "Requests of the run (default: 10 per request in flight; 512 at a rate)")
      ->group(group);
  command
      .add_option("--shortest", shortest,
                  "Lengths are uniform from this share of --isl and --osl on (default: 0.8)")
      ->group(group);
  command.add_option("--seed", seed, "Seed of lengths and arrivals")->group(group);
  command.add_option("--token-budget", token_budget, "Tokens of a step (default: the backend's)")
      ->group(group);
  command
      .add_option("--poll-interval", poll_interval,
                  "Decode steps between two looks at new requests (default: 1)")
      ->group(group);
  command
      .add_option("--hold-steps", hold_steps,
                  "Steps for which prompts wait until every data-parallel rank has one")
      ->group(group);
  command
      .add_option("--max-num-seqs", max_requests,
                  "Requests that one rank serves at once (default: as many as memory holds)")
      ->group(group);
  command
      .add_option("--correction", corrections,
                  "Set a correction, name=value (repeatable; see docs/accuracy.md)")
      ->group(group);
  command.add_flag("--no-corrections", bare, "Operators and scheduling alone")->group(group);
  command.add_flag("--recipe", recipe, "Launch flags of the public nightly benchmark's recipes")
      ->group(group);
  command
      .add_option("--calibration", calibration,
                  "Profile written by calibrate: show calibrated figures beside the raw ones")
      ->group(group);
}

bool BenchmarkLoadFlags::given() const {
  return concurrency || rate || requests || shortest || token_budget || poll_interval ||
         hold_steps || max_requests || !corrections.empty() || bare || recipe || calibration;
}

Result<std::optional<LoadAnswer>> BenchmarkLoadFlags::Forecast(const EstimateRequest& request,
                                                               const PointEstimate& point,
                                                               bool by_default) const {
  const bool pools = request.mode == EstimateMode::kDisagg;
  if (!pools && request.mode != EstimateMode::kAgg) {
    if (!given()) return std::nullopt;
    return Fail(ErrorKind::kUsage,
                "a load (--concurrency, --rate ...) goes with the modes agg and disagg only");
  }
  if (!given() && !by_default) return std::nullopt;
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
  const Backend backend = worker.backend();

  LoadAnswer answer;
  LoadSpec& load = answer.load;
  const std::int64_t batch = pools ? request.decode.batch.value_or(request.batch) : request.batch;
  double progress = 1;
  if (worker.plan().nextn > 0) {
    progress += std::clamp(request.nextn_accepted.value_or(0), 0.0,
                           static_cast<double>(worker.plan().nextn));
  }
  load = ClosedLoad(request.workload, worker,
                    concurrency.value_or(rate ? 0 : batch * replica.decode_ranks()), progress);
  load.requests = requests.value_or(0);
  load.shortest = shortest.value_or(load.shortest);
  load.seed = seed;
  load.rate = rate.value_or(0);

  const std::int64_t in_flight = std::max<std::int64_t>(load.concurrency, 1);
  answer.policy = PolicyOf(replica, in_flight, load.isl);
  if (recipe) {
    std::string flags;
    const BatchPolicy published =
        BenchmarkRecipe({backend, &worker.system(), request.model, PrecisionOf(worker.plan().quant),
                         in_flight, load.isl},
                        &flags);
    answer.policy.poll_interval = published.poll_interval;
    if (!pools && !request.ctx_tokens) answer.policy.token_budget = published.token_budget;
    if (!flags.empty()) answer.notes.push_back("benchmark recipe: " + flags);
  }
  if (token_budget) answer.policy.token_budget = *token_budget;
  if (poll_interval) answer.policy.poll_interval = *poll_interval;
  if (hold_steps) answer.policy.hold_steps = *hold_steps;
  if (max_requests) answer.policy.max_requests = *max_requests;

  answer.corrections = bare ? NoCorrections() : CorrectionsOf(replica);
  IC_ASSIGN(const CorrectionSettings settings, ParseCorrections(corrections));
  IC_RETURN_IF_ERROR(ApplyCorrections(settings, answer.corrections));

  IC_ASSIGN(ReplicaSimulator simulator, ReplicaSimulator::Create(replica));
  IC_ASSIGN(answer.forecast, simulator.Run(answer.policy, answer.corrections, load));
  if (calibration) {
    IC_ASSIGN(const CalibrationProfile profile, ReadProfile(*calibration));
    CalibrationQuery query;
    query.family = {std::string(ToString(backend)),
                    request.system,
                    request.model,
                    PrecisionOf(worker.plan().quant),
                    request.version.value_or(""),
                    "",
                    pools ? "disagg" : "agg"};
    query.isl = load.isl;
    query.osl = load.osl;
    query.concurrency = load.concurrency;
    std::string why;
    if (const CalibrationFactor* factor = FindFactor(profile, query, &why)) {
      answer.calibrated_ttft_ms = answer.forecast.ttft.mean * factor->ttft;
      answer.calibrated_tpot_ms = answer.forecast.tpot.mean * factor->tpot;
      answer.notes.push_back(fmt::format("calibrated with {} measured points of {}", factor->points,
                                         factor->family.Text()));
    } else {
      answer.notes.push_back(why);
    }
  }
  const std::int64_t share = replica.decode_ranks();
  answer.intervals =
      IntervalsOf(KindOf(worker, pools, (in_flight + share - 1) / share, load.isl, load.osl),
                  answer.calibrated_ttft_ms.value_or(answer.forecast.ttft.mean),
                  answer.calibrated_tpot_ms.value_or(answer.forecast.tpot.mean));
  return answer;
}

std::string LoadAnswer::Text() const {
  const ServingForecast& f = forecast;
  std::string text =
      load.concurrency > 0
          ? fmt::format("\nas a benchmark with {} requests in flight would see it ({} requests)\n",
                        load.concurrency, f.requests)
          : fmt::format("\nas a client at {} requests/s would see it ({} requests)\n", load.rate,
                        f.requests);
  text += fmt::format("  {:<22} {:>10} {:>10} {:>10} {:>10}   {}\n", "ms", "mean", "median", "p90",
                      "p99", "10 % to 90 % of measurements of the mean");
  const auto line = [&](const char* name, const Distribution& d, const Interval& i) {
    text += fmt::format("  {:<22} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}   {:.2f} to {:.2f}\n",
                        name, d.mean, d.median, d.p90, d.p99, i.low, i.high);
  };
  line("time to first token", f.ttft, intervals.ttft);
  line("time per output token", f.tpot, intervals.tpot);
  if (calibrated_ttft_ms) {
    text += fmt::format("  calibrated means: {:.2f} to the first token, {:.2f} per output token\n",
                        *calibrated_ttft_ms, *calibrated_tpot_ms);
  }
  text += fmt::format(
      "  of the first token: front end {:.1f}, polling {:.1f}, queue {:.1f}, prefill {:.1f}",
      f.parts.front_end, f.parts.polling, f.parts.queue, f.parts.prefill);
  if (f.parts.transfer > 0) text += fmt::format(", KV transfer {:.1f}", f.parts.transfer);
  text += fmt::format(
      " ms\n  {:.3f} requests/s, {:.1f} tokens/s, {:.1f} requests decoding on average\n",
      f.requests_per_s, f.output_tokens_per_s, f.mean_running);
  return text;
}

ordered_json LoadAnswer::Json() const {
  const ServingForecast& f = forecast;
  ordered_json json;
  if (load.concurrency > 0) {
    json["concurrency"] = load.concurrency;
  } else {
    json["rate"] = load.rate;
  }
  json["requests"] = f.requests;
  json["shortest"] = load.shortest;
  json["seed"] = load.seed;
  json["ttft_ms"] = DistributionJson(f.ttft);
  json["tpot_ms"] = DistributionJson(f.tpot);
  json["ttft_interval_ms"] = {intervals.ttft.low, intervals.ttft.high};
  json["tpot_interval_ms"] = {intervals.tpot.low, intervals.tpot.high};
  json["ttft_parts_ms"] = {{"front_end", f.parts.front_end},
                           {"polling", f.parts.polling},
                           {"queue", f.parts.queue},
                           {"prefill", f.parts.prefill},
                           {"transfer", f.parts.transfer}};
  if (calibrated_ttft_ms) {
    json["calibrated"] = {{"ttft_ms", *calibrated_ttft_ms}, {"tpot_ms", *calibrated_tpot_ms}};
  }
  json["requests_per_s"] = f.requests_per_s;
  json["output_tokens_per_s"] = f.output_tokens_per_s;
  json["request_latency_ms"] = f.mean_latency_ms;
  json["mean_running"] = f.mean_running;
  json["context_step_share"] = f.context_step_share;
  json["peak_kv_share"] = f.peak_kv_share;
  json["policy"] = {{"rule", ToString(policy.rule)},
                    {"token_budget", policy.token_budget},
                    {"poll_interval", policy.poll_interval},
                    {"hold_steps", policy.hold_steps},
                    {"max_requests", policy.max_requests},
                    {"kv_output_share", policy.kv_output_share},
                    {"memory_fraction", policy.memory_fraction}};
  for (const CorrectionFacts& facts : CorrectionNames()) {
    json["corrections"][std::string(facts.name)] = GetCorrection(corrections, facts);
  }
  return json;
}

}  // namespace infercast
