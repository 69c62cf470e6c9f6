// One operator, one query: decode, bind, query, compare.
#include <fmt/format.h>

#include <optional>

#include "engine/spec_json.h"
#include "golden_check/adapters.h"
#include "golden_check/comparer.h"
#include "golden_check/operator_case.h"
#include "operators/bound_operator.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

// The answer of the decomposition view: an operator without both parts is refused unless it is
// free.
Result<PerfResult> QueryDecomposition(const BoundOperator& bound, const QueryContext& query) {
  auto result = bound.Query(query);
  if (result && !result->has_sol && !result->IsZero()) {
    return Fail(ErrorKind::kSolNotImplemented, "no decomposition");
  }
  return result;
}

void CompareFallbacks(const Json& expected, const CommFallbackSet& actual, std::string_view phase,
                      Comparer& compare) {
  Json records = Json::array();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const CommFallback& record = actual[i];
    records.push_back({{"inference_phase", phase},
                       {"comm_backend", record.comm_backend},
                       {"requested_ep_size", record.requested_ep_size},
                       {"requested_node_num", record.requested_node_num},
                       {"measurement_ep_size", record.measurement_ep_size},
                       {"measurement_node_num", record.measurement_node_num}});
  }
  compare.Exact("fallbacks", expected, records);
}

void CompareAnswer(const Json& expect, const PerfResult& result, std::string_view phase,
                   Comparer& compare) {
  compare.Number("latency_ms", expect.at("latency_ms"), result.latency_ms);
  if (expect.contains("sol_math_ms")) {
    compare.Number("sol_math_ms", expect.at("sol_math_ms"), result.sol_math_ms);
    compare.Number("sol_mem_ms", expect.at("sol_mem_ms"), result.sol_mem_ms);
    return;
  }
  compare.Number("energy_wms", expect.at("energy_wms"), result.energy_wms);
  compare.Exact("source", expect.at("source"), ToString(result.source));
  compare.Exact("provenance", expect.at("provenance"),
                result.tier == Tier::kSilicon ? Json() : Json(ToString(result.tier)));
  if (const Json& fallbacks = expect.at("fallbacks"); !fallbacks.is_null()) {
    CompareFallbacks(fallbacks, result.fallbacks, phase, compare);
  }
}

// `bound` outlives the answer: records of substitutions live in it.
Result<PerfResult> Query(const Json& document, const Operator& op, Environment& environment,
                         std::optional<BoundOperator>& bound) {
  IC_ASSIGN(bound, BindCase(document, op, environment));
  const QueryContext query = ParseContext(document.at("ctx"));
  return IsDecomposition(document) ? QueryDecomposition(*bound, query) : bound->Query(query);
}

}  // namespace

std::vector<Outcome> RunOperatorCase(const Json& document, Environment& environment) {
  Outcome outcome{"operator", document.at("op").begin().key(), document.at("id"), {}, 0};
  Comparer compare(outcome, environment.tolerance());
  const Json& expect = document.at("expect");
  const auto op = ParseOperatorJson(document.at("op").dump());

  if (!op) {
    if (expect.contains("weight_error")) {
      compare.ErrorKindOf("weight_error", expect.at("weight_error"), op.error());
    } else {
      compare.ErrorInsteadOfAnswer("op", "an operator", op.error());
    }
  } else if (expect.contains("weight_error")) {
    compare.AnswerInsteadOfError("weight_bytes", expect.at("weight_error"), "an operator");
  } else {
    compare.Number("weight_bytes", expect.at("weight_bytes"), WeightBytes(*op));
  }

  std::optional<BoundOperator> bound;
  const Result<PerfResult> result =
      op ? Query(document, *op, environment, bound) : std::unexpected(op.error());
  if (const auto error = expect.find("error"); error != expect.end()) {
    if (result) {
      compare.AnswerInsteadOfError(
          "", *error, fmt::format("{} ms, {}", result->latency_ms, ToString(result->source)));
    } else {
      compare.ErrorKindOf("error", *error, result.error());
    }
  } else if (result) {
    CompareAnswer(expect, *result, document.at("ctx").at("phase").get<std::string>(), compare);
  } else {
    compare.ErrorInsteadOfAnswer("", fmt::format("{} ms", expect.at("latency_ms").get<double>()),
                                 result.error());
  }
  return {outcome};
}

}  // namespace infercast::golden
