#include "cli/load_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/measured_flags.h"
#include "validation/calibration.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

ordered_json DistributionJson(const Distribution& d) {
  return {{"mean", d.mean}, {"median", d.median}, {"p90", d.p90}, {"p99", d.p99}};
}

}  // namespace

void BenchmarkLoadFlags::Declare(CLI::App& command) {
  const char* group = "Load in virtual time (agg, disagg)";
  command
      .add_option("--concurrency", load.concurrency,
                  "Requests in flight: every completion sends the next (default: as many as "
                  "--batch-size says)")
      ->group(group);
  command.add_option("--rate", load.rate, "Open arrivals instead: requests per second")
      ->group(group);
  command
      .add_option("--num-requests", load.requests,
                  "Requests of the run (default: 10 per request in flight; 512 at a rate)")
      ->group(group);
  command
      .add_option("--shortest", load.shortest,
                  "Lengths are uniform from this share of --isl and --osl on (default: 0.8)")
      ->group(group);
  command.add_option("--seed", load.seed, "Seed of lengths and arrivals (default: 1)")
      ->group(group)
      // As a number without a sign it would be read as another one.
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "expected 0 or more, got " + text : std::string();
      });
  command
      .add_option("--token-budget", load.token_budget, "Tokens of a step (default: the backend's)")
      ->group(group);
  command
      .add_option("--poll-interval", load.poll_interval,
                  "Decode steps between two looks at new requests (default: 1)")
      ->group(group);
  command
      .add_option("--hold-steps", load.hold_steps,
                  "Steps for which prompts wait until every data-parallel rank has one")
      ->group(group);
  command
      .add_option("--max-num-seqs", load.max_requests,
                  "Requests that one rank serves at once (default: as many as memory holds)")
      ->group(group);
  command
      .add_option("--correction", load.corrections,
                  "Set a correction, name=value (repeatable; see docs/accuracy.md)")
      ->group(group);
  command.add_flag("--no-corrections", load.bare, "Operators and scheduling alone")->group(group);
  command
      .add_flag("--recipe", load.recipe, "Launch flags of the public nightly benchmark's recipes")
      ->group(group);
  command
      .add_option("--calibration", calibration,
                  "Profile written by calibrate: show calibrated figures beside the raw ones")
      ->group(group);
}

Result<LoadAnswer> BenchmarkLoadFlags::Answer(const EstimateRequest& request,
                                              const PointEstimate& point,
                                              const ServingRun& run) const {
  LoadAnswer answer;
  answer.run = run;
  answer.intervals = run.intervals;
  if (!calibration) return answer;
  IC_ASSIGN(const CalibrationProfile profile, ReadProfile(*calibration));
  const bool pools = request.mode == EstimateMode::kDisagg;
  const Worker& worker = *point.workers[pools ? 1 : 0];
  CalibrationQuery query;
  query.family = {std::string(ToString(worker.backend())),
                  request.system,
                  request.model,
                  std::string(PublishedPrecision(worker.plan().quant)),
                  request.version.value_or(""),
                  "",
                  pools ? "disagg" : "agg"};
  query.isl = run.load.isl;
  query.osl = run.load.osl;
  query.concurrency = run.load.concurrency;
  std::string why;
  if (const CalibrationFactor* factor = FindFactor(profile, query, &why)) {
    answer.calibrated_ttft_ms = run.forecast.ttft.mean * factor->ttft;
    answer.calibrated_tpot_ms = run.forecast.tpot.mean * factor->tpot;
    answer.intervals =
        IntervalsOf(run.kind, *answer.calibrated_ttft_ms, *answer.calibrated_tpot_ms);
    answer.notes.push_back(fmt::format("calibrated with {} measured points of {}", factor->points,
                                       factor->family.Text()));
  } else {
    answer.notes.push_back(why);
  }
  return answer;
}

std::string LoadAnswer::Text() const {
  const ServingForecast& f = run.forecast;
  const LoadSpec& load = run.load;
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
  const ServingForecast& f = run.forecast;
  const LoadSpec& load = run.load;
  const BatchPolicy& policy = run.policy;
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
                    {"wait_steps", policy.wait_steps},
                    {"wait_budget_share", policy.wait_budget_share},
                    {"max_requests", policy.max_requests},
                    {"kv_output_share", policy.kv_output_share},
                    {"memory_fraction", policy.memory_fraction}};
  for (const CorrectionFacts& facts : CorrectionNames()) {
    json["corrections"][std::string(facts.name)] = GetCorrection(run.corrections, facts);
  }
  return json;
}

}  // namespace infercast
