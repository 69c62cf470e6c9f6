// One operator, one query: decode, open the data identity, bind, query, compare.
#include <fmt/format.h>

#include <optional>

#include "engine/spec_json.h"
#include "golden_check/adapters.h"
#include "golden_check/comparer.h"
#include "operators/bound_operator.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

// The roofline-decomposition view is asked of an engine that was loaded in silicon mode.
constexpr std::string_view kDecomposition = "SOL_FULL";

Result<Database> OpenDatabase(const Json& document, Environment& environment) {
  const std::string mode_name = document.at("mode");
  const auto mode =
      mode_name == kDecomposition ? DatabaseMode::kSilicon : ParseEnum<DatabaseMode>(mode_name);
  if (!mode) return Fail(ErrorKind::kInvalidEngineConfig, "unknown mode " + mode_name);
  const Json& db = document.at("db");
  DatabaseIdentity identity;
  IC_ASSIGN(identity.systems_root, environment.SystemsRoot(document.value("systems_root", "")));
  identity.system = document.at("system");
  IC_ASSIGN(identity.backend, ParseBackend(document.at("backend").get<std::string>()));
  identity.version = document.at("version");
  identity.shared_layer = db.at("enable_shared_layer").is_null()
                              ? *mode == DatabaseMode::kSilicon || *mode == DatabaseMode::kHybrid
                              : db.at("enable_shared_layer").get<bool>();
  identity.tolerate_missing_dir =
      db.at("tolerate_dirless_version").get<bool>() || *mode == DatabaseMode::kSol;
  std::optional<std::vector<std::string>> kinds;
  if (const Json& policy = db.at("transfer_policy"); !policy.is_null()) {
    kinds = policy.get<std::vector<std::string>>();
  }
  IC_ASSIGN(const TransferPolicy policy, ParsePolicy(kinds));
  IC_ASSIGN(auto store, environment.Store(identity));
  return Database(std::move(store), *mode, policy, Environment::kBehaviour);
}

QueryContext ParseContext(const Json& ctx) {
  QueryContext query;
  query.batch_size = ctx.at("batch_size");
  query.beam_width = ctx.at("beam_width");
  query.s = ctx.at("s");
  query.prefix = ctx.at("prefix");
  query.num_tokens = ctx.at("num_tokens");
  query.seq_imbalance_correction_scale = ctx.at("seq_imbalance_correction_scale");
  query.gen_seq_imbalance_correction_scale = ctx.at("gen_seq_imbalance_correction_scale");
  query.num_image_tokens = ctx.at("num_image_tokens");
  return query;
}

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
  IC_ASSIGN(const Database db, OpenDatabase(document, environment));
  const QueryContext query = ParseContext(document.at("ctx"));
  const bool decompose = document.at("mode") == kDecomposition;
  bound = BoundOperator::Bind(op, decompose ? db.WithMode(DatabaseMode::kSolFull) : db);
  return decompose ? QueryDecomposition(*bound, query) : bound->Query(query);
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
