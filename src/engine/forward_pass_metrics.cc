// Reading and validating telemetry records.
#include "engine/forward_pass_metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/json_reader.h"

namespace infercast {
namespace {

using internal::Json;
using Ranks = std::vector<ForwardPassMetrics>;

constexpr std::string_view kRanks = "invalid forward-pass metrics JSON";
constexpr std::string_view kIterations = "invalid tuning iterations JSON";

Result<Json> ParseDocument(std::string_view text, std::string_view what) {
  if (!internal::NestingIsBounded(text)) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: nests too deeply", what));
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: {}", what, e.what()));
  }
}

template <typename T>
Result<T> ReadAs(const Json& json, std::string_view what) {
  T value;
  internal::JsonReader reader;
  if (!reader.Read(json, value)) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: {}", what, reader.error));
  }
  return value;
}

bool IsEmptyValue(const Json& json) {
  return json.is_null() || (json.is_structured() && json.empty());
}

}  // namespace

Status ValidateMetrics(const ForwardPassMetrics& metrics) {
  if (metrics.version != kForwardPassMetricsVersion) {
    return Fail(
        ErrorKind::kUnsupportedSchemaVersion,
        fmt::format("unsupported schema version for ForwardPassMetrics: got {}, expected {}",
                    metrics.version, kForwardPassMetricsVersion));
  }
  const ScheduledMetrics& s = metrics.scheduled_requests;
  if (s.num_prefill_requests == 0 && (s.sum_prefill_tokens > 0 || s.sum_prefill_kv_tokens > 0)) {
    return Fail(ErrorKind::kInvalidForwardPassMetrics,
                "prefill token sums require num_prefill_requests > 0");
  }
  if (s.num_decode_requests == 0 && s.sum_decode_kv_tokens > 0) {
    return Fail(ErrorKind::kInvalidForwardPassMetrics,
                "decode KV token sum requires num_decode_requests > 0");
  }
  return {};
}

Result<Ranks> ParseRankMetrics(std::string_view text) {
  IC_ASSIGN(const Json json, ParseDocument(text, kRanks));
  if (json.is_array()) return ReadAs<Ranks>(json, kRanks);
  IC_ASSIGN(auto record, ReadAs<ForwardPassMetrics>(json, kRanks));
  return Ranks{std::move(record)};
}

Result<std::vector<Ranks>> ParseIterations(std::string_view text) {
  IC_ASSIGN(const Json json, ParseDocument(text, kIterations));
  return ReadAs<std::vector<Ranks>>(json, kIterations);
}

Result<std::vector<Ranks>> ParseAnyIterations(std::string_view text) {
  IC_ASSIGN(const Json json, ParseDocument(text, kIterations));
  if (IsEmptyValue(json)) return std::vector<Ranks>{};
  if (json.is_object() || (json.is_array() && json.front().is_object())) {
    IC_ASSIGN(auto ranks, ReadAs<Ranks>(json.is_array() ? json : Json::array({json}), kIterations));
    return std::vector<Ranks>{std::move(ranks)};
  }
  return ReadAs<std::vector<Ranks>>(json, kIterations);
}

Result<double> ObservedForwardPass(const Engine& engine,
                                   std::span<const ForwardPassMetrics> ranks) {
  for (const ForwardPassMetrics& rank : ranks) IC_RETURN_IF_ERROR(ValidateMetrics(rank));
  if (ranks.empty()) return engine.ObservedForwardPass({});
  // Rank by rank, so that nothing is allocated.
  double slowest = 0;
  for (const ForwardPassMetrics& rank : ranks) {
    const ScheduledMetrics& s = rank.scheduled_requests;
    const ScheduledRequests record{s.num_prefill_requests, s.sum_prefill_tokens,
                                   s.sum_prefill_kv_tokens, s.num_decode_requests,
                                   s.sum_decode_kv_tokens};
    IC_ASSIGN(const double ms, engine.ObservedForwardPass(std::span(&record, 1)));
    slowest = std::max(slowest, ms);
  }
  return slowest;
}

}  // namespace infercast
