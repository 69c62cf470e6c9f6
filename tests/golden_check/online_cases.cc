// An online forward-pass model: created once, then called step by step.
#include <fmt/format.h>

#include "engine/spec_json.h"
#include "golden_check/adapters.h"
#include "golden_check/comparer.h"
#include "online/native_engine.h"
#include "online/online_model.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

// A value as text; {"raw_text": ...} stands for that literal text.
std::string TextOf(const Json& value) {
  if (value.is_object() && value.contains("raw_text")) return value.at("raw_text");
  return value.dump();
}

Json ToJson(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json ToJson(const OnlineDiagnostics& d) {
  return {{"source", ToString(d.source)},
          {"readiness", ToString(d.readiness)},
          {"retained_observations", d.retained_observations},
          {"correction_ready_buckets", d.correction_ready_buckets},
          {"last_warning", d.last_warning ? Json(*d.last_warning) : Json(nullptr)}};
}

Result<std::shared_ptr<const Engine>> EngineOf(const EngineConfig& config,
                                               const Environment& environment) {
  IC_ASSIGN(const std::filesystem::path root,
            environment.SystemsRoot(config.systems_path.value_or("")));
  // A tree of its own still takes the models of the data package.
  std::vector<std::filesystem::path> roots = {root};
  if (const auto data = environment.SystemsRoot("")) roots.push_back(*data);
  return BuildNativeEngine(config, roots, Environment::kBehaviour);
}

Result<OnlineModel> Create(const Json& document, Environment& environment) {
  const Json& options_json = document.at("options");
  const std::string text = options_json.is_null() ? "" : TextOf(options_json);
  const std::string create = document.at("create");
  if (create == "from_regression") {
    IC_ASSIGN(const OnlineOptions options, ParseOnlineOptions(text));
    return OnlineModel::FromRegression(options);
  }
  IC_ASSIGN(const EngineConfig config, ParseEngineConfigJson(TextOf(document.at("config"))));
  IC_ASSIGN(const OnlineOptions options, ParseOnlineOptions(text));
  IC_RETURN_IF_ERROR(ValidateOptions(options));
  const auto engine = EngineOf(config, environment);
  if (create == "best_available") return OnlineModel::BestAvailable(engine, options);
  if (!engine) return std::unexpected(engine.error());
  return OnlineModel::FromEngine(*engine, options);
}

Result<Json> Call(OnlineModel& model, const Json& step) {
  const std::string call = step.at("call");
  if (call == "diagnostics") return ToJson(model.Diagnostics());
  if (call == "correction_factors") {
    const CorrectionFactors factors = model.Corrections();
    return Json{
        {"min", ToJson(factors.min)}, {"max", ToJson(factors.max)}, {"avg", ToJson(factors.mean)}};
  }
  const std::string text = TextOf(step.at("args"));
  if (call == "estimate") {
    IC_ASSIGN(const auto ranks, ParseRankMetrics(text));
    IC_ASSIGN(const auto latency, model.Estimate(ranks));
    return ToJson(latency);
  }
  if (call == "tune" || call == "tune_any") {
    IC_ASSIGN(const auto iterations,
              call == "tune" ? ParseIterations(text) : ParseAnyIterations(text));
    IC_RETURN_IF_ERROR(model.Tune(iterations));
    return Json(nullptr);
  }
  return Fail(ErrorKind::kInternal, "unknown call " + call);
}

// Of a warning only its presence counts.
void CompareAnswer(const std::string& where, Json expected, Json actual, Comparer& compare) {
  if (expected.is_object() && expected.contains("last_warning")) {
    for (Json* side : {&expected, &actual}) {
      Json& warning = (*side)["last_warning"];
      warning = !warning.is_null();
    }
  }
  compare.Tree(where, expected, actual);
}

}  // namespace

std::vector<Outcome> RunOnlineCase(const Json& document, Environment& environment) {
  Outcome outcome{"online", document.at("create"), document.at("id"), {}, 0};
  Comparer compare(outcome, environment.tolerance());
  auto model = Create(document, environment);
  if (document.contains("create_error") && !document.at("create_error").is_null()) {
    const Json& expected = document.at("create_error");
    if (model) {
      compare.AnswerInsteadOfError("create", expected, "a model");
    } else {
      compare.ErrorKindOf("create", expected, model.error());
    }
    return {std::move(outcome)};
  }
  if (!model) {
    compare.ErrorInsteadOfAnswer("create", "a model", model.error());
    return {std::move(outcome)};
  }
  std::size_t index = 0;
  for (const Json& step : document.at("steps")) {
    const std::string where =
        fmt::format("step {} {}", index++, step.at("call").get<std::string>());
    const auto answer = Call(*model, step);
    const Json& expect = step.at("expect");
    if (expect.contains("error")) {
      if (answer) {
        compare.AnswerInsteadOfError(where, expect.at("error"), answer->dump());
      } else {
        compare.ErrorKindOf(where, expect.at("error"), answer.error());
      }
    } else if (!answer) {
      compare.ErrorInsteadOfAnswer(where, expect.at("value").dump(), answer.error());
    } else {
      CompareAnswer(where, expect.at("value"), *answer, compare);
    }
  }
  return {std::move(outcome)};
}

}  // namespace infercast::golden
