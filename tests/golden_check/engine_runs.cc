// Asks the engine for scalar and per-operator forms and compares both.
#include "golden_check/engine_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

Json TierName(Tier tier) { return tier == Tier::kSilicon ? Json() : Json(ToString(tier)); }

std::optional<StaticMode> ModeOf(std::string_view name) {
  if (name == "static") return StaticMode::kBoth;
  if (name == "static_ctx") return StaticMode::kContext;
  if (name == "static_gen") return StaticMode::kGeneration;
  return std::nullopt;
}

// Entries as [name, latency, energy, source, fallbacks], fallbacks as lists that begin with the
// phase.
Json Entries(const Breakdown& breakdown, std::string_view phase) {
  Json list = Json::array();
  for (const OpEntry& entry : breakdown.entries) {
    Json records = Json::array();
    for (std::size_t i = 0; i < entry.fallbacks.size(); ++i) {
      const CommFallback& record = entry.fallbacks[i];
      records.push_back(Json::array({phase, record.comm_backend, record.requested_ep_size,
                                     record.requested_node_num, record.measurement_ep_size,
                                     record.measurement_node_num}));
    }
    list.push_back(Json::array(
        {entry.name, entry.latency_ms, entry.energy_wms, ToString(entry.source), records}));
  }
  return list;
}

// The run's error, if it must have one, against a result.
template <typename T>
bool IsAnswer(const Json& run, const Result<T>& result, Comparer& compare) {
  const auto error = run.find("error");
  if (!result) {
    CheckRunFailed(run, result.error(), compare);
    return false;
  }
  if (error != run.end()) {
    compare.AnswerInsteadOfError("", *error, "an answer");
    return false;
  }
  return true;
}

void CheckStatic(const Json& run, const Engine& engine, Comparer& compare) {
  const Json& args = run.at("args");
  RuntimeShape shape;
  shape.batch_size = args.at("batch_size");
  shape.beam_width = args.at("beam_width");
  shape.isl = args.at("isl");
  shape.osl = args.at("osl");
  shape.prefix = args.at("prefix");
  shape.context_imbalance = args.at("seq_imbalance_correction_scale");
  shape.generation_imbalance = args.at("gen_seq_imbalance_correction_scale");
  const auto mode = ModeOf(args.at("mode").get<std::string>());
  if (!mode) return compare.Differ("mode", "a known mode", args.at("mode").dump());
  const std::uint32_t stride = args.at("stride");
  const auto cost = engine.RunStatic(shape, *mode, stride);
  if (!IsAnswer(run, cost, compare)) return;
  compare.Number("context_ms", run.at("context_ms"), cost->context.latency_ms);
  compare.Number("generation_ms", run.at("generation_ms"), cost->generation.latency_ms);
  compare.Number("total_ms", run.at("total_ms"), cost->total_ms());
  compare.Exact("provenance", run.at("provenance"),
                TierName(std::max(cost->context.tier, cost->generation.tier)));
  const auto parts = engine.ExplainStatic(shape, *mode, stride);
  if (!IsAnswer(run, parts, compare)) return;
  compare.Tree("context_ops", run.at("context_ops"), Entries(parts->context, "context"));
  compare.Tree("generation_ops", run.at("generation_ops"),
               Entries(parts->generation, "generation"));
}

void CheckMixed(const Json& run, const Engine& engine, Comparer& compare) {
  const Json& args = run.at("args");
  MixedShape shape;
  shape.context_tokens = args.at("ctx_tokens");
  shape.decodes = args.at("gen_tokens");
  shape.isl = args.at("isl");
  shape.osl = args.at("osl");
  shape.prefix = args.at("prefix");
  const auto cost = engine.MixedStep(shape);
  if (!IsAnswer(run, cost, compare)) return;
  compare.Number("latency_ms", run.at("latency_ms"), cost->total_ms());
  compare.Number("breakdown_total_ms", run.at("breakdown_total_ms"), cost->total_ms());
  compare.Number("shared_non_attention_ms", run.at("shared_non_attention_ms"),
                 cost->shared.latency_ms);
  compare.Number("context_attention_ms", run.at("context_attention_ms"),
                 cost->context_attention.latency_ms);
  compare.Number("decode_attention_ms", run.at("decode_attention_ms"),
                 cost->decode_attention.latency_ms);
  compare.Exact("provenance", run.at("provenance"),
                TierName(std::max({cost->shared.tier, cost->context_attention.tier,
                                   cost->decode_attention.tier})));
  const auto parts = engine.ExplainMixedStep(shape);
  if (!IsAnswer(run, parts, compare)) return;
  compare.Tree("shared_ops", run.at("shared_ops"), Entries(parts->shared, "context"));
  compare.Tree("context_attention_ops", run.at("context_attention_ops"),
               Entries(parts->context_attention, "context"));
  compare.Tree("decode_attention_ops", run.at("decode_attention_ops"),
               Entries(parts->decode_attention, "generation"));
}

void CheckDecode(const Json& run, const Engine& engine, Comparer& compare) {
  const Json& args = run.at("args");
  const std::uint32_t decodes = args.at("gen_tokens");
  const std::uint32_t isl = args.at("isl");
  const std::uint32_t osl = args.at("osl");
  const auto cost = engine.DecodeStep(decodes, isl, osl);
  if (!IsAnswer(run, cost, compare)) return;
  compare.Number("latency_ms", run.at("latency_ms"), cost->latency_ms);
  compare.Exact("provenance", run.at("provenance"), TierName(cost->tier));
  const auto parts = engine.ExplainDecodeStep(decodes, isl, osl);
  if (!IsAnswer(run, parts, compare)) return;
  compare.Tree("ops", run.at("ops"), Entries(*parts, "generation"));
}

}  // namespace

void CheckRunFailed(const Json& run, const Error& error, Comparer& compare) {
  if (const auto expected = run.find("error"); expected != run.end()) {
    compare.ErrorKindOf("error", *expected, error);
  } else {
    compare.ErrorInsteadOfAnswer("", "an answer", error);
  }
}

void CheckRun(const Json& run, const Engine& engine, Comparer& compare) {
  const std::string kind = run.at("kind");
  const Json& args = run.at("args");
  if (kind == "static") {
    CheckStatic(run, engine, compare);
  } else if (kind == "mixed_step") {
    CheckMixed(run, engine, compare);
  } else if (kind == "decode_step") {
    CheckDecode(run, engine, compare);
  } else if (kind == "predict_prefill") {
    const auto ms = engine.PredictPrefill(args.at("bs"), args.at("isl"), args.at("prefix"));
    if (IsAnswer(run, ms, compare)) compare.Number("latency_ms", run.at("latency_ms"), *ms);
  } else if (kind == "predict_decode") {
    const auto ms = engine.PredictDecode(args.at("bs"), args.at("isl"), args.at("osl"));
    if (IsAnswer(run, ms, compare)) compare.Number("latency_ms", run.at("latency_ms"), *ms);
  } else {
    compare.Differ("kind", "a known run", kind);
  }
}

std::string DescribeRun(const Json& run) {
  std::string text = run.at("kind");
  const Json& args = run.at("args");
  for (const auto& [key, value] : args.items()) {
    text += args.is_array() ? fmt::format(" {}", value.dump())
                            : fmt::format(" {}={}", key, value.dump());
  }
  return text;
}

}  // namespace infercast::golden
