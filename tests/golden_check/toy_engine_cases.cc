// Engines over the made-up systems root: positional arguments and plain values.
#include <fmt/format.h>

#include "engine/engine.h"
#include "engine/spec_json.h"
#include "golden_check/adapters.h"
#include "golden_check/comparer.h"
#include "golden_check/engine_runs.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

template <typename T>
std::optional<T> Take(const Json& run, Result<T> result, Comparer& compare) {
  if (!result) {
    CheckRunFailed(run, result.error(), compare);
    return std::nullopt;
  }
  if (run.contains("error")) {
    compare.AnswerInsteadOfError("", run.at("error"), "an answer");
    return std::nullopt;
  }
  return *std::move(result);
}

void CheckToyRun(const Json& run, const Engine& engine, Comparer& compare) {
  const std::string kind = run.at("kind");
  const Json& args = run.at("args");
  const auto integer = [&](std::size_t i) { return args.at(i).get<std::uint32_t>(); };
  if (kind == "run_static") {
    RuntimeShape shape;
    shape.batch_size = integer(0);
    shape.beam_width = integer(1);
    shape.isl = integer(2);
    shape.osl = integer(3);
    shape.prefix = integer(4);
    shape.context_imbalance = args.at(5);
    shape.generation_imbalance = args.at(6);
    const std::string mode = args.at(7);
    const auto cost = Take(run,
                           engine.RunStatic(shape,
                                            mode == "static_ctx"   ? StaticMode::kContext
                                            : mode == "static_gen" ? StaticMode::kGeneration
                                                                   : StaticMode::kBoth,
                                            integer(8)),
                           compare);
    if (!cost) return;
    compare.Tree("value", run.at("value"),
                 {cost->context.latency_ms, cost->generation.latency_ms, cost->total_ms()});
  } else if (kind == "mixed_step_breakdown") {
    MixedShape shape;
    shape.context_tokens = integer(0);
    shape.decodes = integer(1);
    shape.isl = integer(2);
    shape.osl = integer(3);
    shape.prefix = integer(4);
    const auto cost = Take(run, engine.MixedStep(shape), compare);
    if (!cost) return;
    compare.Tree("value", run.at("value"),
                 {cost->total_ms(), cost->shared.latency_ms, cost->context_attention.latency_ms,
                  cost->decode_attention.latency_ms});
  } else if (kind == "decode_step_latency") {
    const auto cost = Take(run, engine.DecodeStep(integer(0), integer(1), integer(2)), compare);
    if (cost) compare.Number("value", run.at("value"), cost->latency_ms);
  } else if (kind == "predict_prefill_latency") {
    const auto ms = Take(run, engine.PredictPrefill(integer(0), integer(1), integer(2)), compare);
    if (ms) compare.Number("value", run.at("value"), *ms);
  } else if (kind == "predict_decode_latency") {
    const auto ms = Take(run, engine.PredictDecode(integer(0), integer(1), integer(2)), compare);
    if (ms) compare.Number("value", run.at("value"), *ms);
  } else {
    compare.Differ("kind", "a known run", kind);
  }
}

Result<std::shared_ptr<const Engine>> OpenEngine(const Json& document, Environment& environment) {
  IC_ASSIGN(const EngineSpec spec, ParseEngineSpecJson(document.at("spec").dump()));
  IC_ASSIGN(const auto root, environment.SystemsRoot(document.value("systems_root", "")));
  return Engine::Open(spec, root, Environment::kBehaviour);
}

}  // namespace

std::vector<Outcome> RunToyEngineCase(const Json& document, Environment& environment) {
  std::vector<Outcome> outcomes;
  const auto engine = OpenEngine(document, environment);
  for (const Json& run : document.at("runs")) {
    Outcome& outcome = outcomes.emplace_back(
        Outcome{"toy engine",
                run.at("kind"),
                fmt::format("{} {}", document.at("id").get<std::string>(), DescribeRun(run)),
                {},
                0});
    Comparer compare(outcome, environment.tolerance());
    if (engine) {
      CheckToyRun(run, **engine, compare);
    } else {
      CheckRunFailed(run, engine.error(), compare);
    }
  }
  return outcomes;
}

}  // namespace infercast::golden
