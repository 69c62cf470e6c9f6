// Telemetry of a running engine: what one rank scheduled in one iteration, and how long it took.
// Travels as JSON, version 1; every member is optional and unknown ones are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "operators/fields.h"

namespace infercast {

inline constexpr std::uint32_t kForwardPassMetricsVersion = 1;

// What the iteration ran. Sums over its requests; variances are informational.
struct ScheduledMetrics {
  std::uint32_t num_prefill_requests = 0;
  std::uint32_t sum_prefill_tokens = 0;  // new tokens
  double var_prefill_length = 0;
  std::uint32_t sum_prefill_kv_tokens = 0;  // cached tokens that prefill read
  std::uint32_t num_decode_requests = 0;
  std::uint32_t sum_decode_kv_tokens = 0;
  double var_decode_kv_tokens = 0;

  bool operator==(const ScheduledMetrics&) const = default;
  static constexpr auto Fields() {
    using S = ScheduledMetrics;
    return std::tuple{Defaulted("num_prefill_requests", &S::num_prefill_requests),
                      Defaulted("sum_prefill_tokens", &S::sum_prefill_tokens),
                      Defaulted("var_prefill_length", &S::var_prefill_length),
                      Defaulted("sum_prefill_kv_tokens", &S::sum_prefill_kv_tokens),
                      Defaulted("num_decode_requests", &S::num_decode_requests),
                      Defaulted("sum_decode_kv_tokens", &S::sum_decode_kv_tokens),
                      Defaulted("var_decode_kv_tokens", &S::var_decode_kv_tokens)};
  }
};

// What waited. Informational.
struct QueuedMetrics {
  std::uint32_t num_prefill_requests = 0;
  std::uint32_t sum_prefill_tokens = 0;
  double var_prefill_length = 0;
  std::uint32_t num_decode_requests = 0;
  std::uint32_t sum_decode_kv_tokens = 0;
  double var_decode_kv_tokens = 0;

  bool operator==(const QueuedMetrics&) const = default;
  static constexpr auto Fields() {
    using S = QueuedMetrics;
    return std::tuple{Defaulted("num_prefill_requests", &S::num_prefill_requests),
                      Defaulted("sum_prefill_tokens", &S::sum_prefill_tokens),
                      Defaulted("var_prefill_length", &S::var_prefill_length),
                      Defaulted("num_decode_requests", &S::num_decode_requests),
                      Defaulted("sum_decode_kv_tokens", &S::sum_decode_kv_tokens),
                      Defaulted("var_decode_kv_tokens", &S::var_decode_kv_tokens)};
  }
};

struct ForwardPassMetrics {
  std::uint32_t version = kForwardPassMetricsVersion;
  std::string worker_id;
  std::uint32_t dp_rank = 0;
  std::uint64_t counter_id = 0;
  double wall_time = 0;  // seconds; 0: not measured
  ScheduledMetrics scheduled_requests;
  QueuedMetrics queued_requests;

  bool operator==(const ForwardPassMetrics&) const = default;
  static constexpr auto Fields() {
    using S = ForwardPassMetrics;
    return std::tuple{Defaulted("version", &S::version),
                      Defaulted("worker_id", &S::worker_id),
                      Defaulted("dp_rank", &S::dp_rank),
                      Defaulted("counter_id", &S::counter_id),
                      Defaulted("wall_time", &S::wall_time),
                      Defaulted("scheduled_requests", &S::scheduled_requests),
                      Defaulted("queued_requests", &S::queued_requests)};
  }
};

// kUnsupportedSchemaVersion for another version; kInvalidForwardPassMetrics when sums of tokens
// come without requests.
Status ValidateMetrics(const ForwardPassMetrics& metrics);

// The ranks of one iteration: a record, or a list with one record a rank. kInvalidArgument when
// the text is not that; records are not validated.
Result<std::vector<ForwardPassMetrics>> ParseRankMetrics(std::string_view text);
// Iterations in their wire form: a list of lists of ranks.
Result<std::vector<std::vector<ForwardPassMetrics>>> ParseIterations(std::string_view text);
// Also accepts a single record or a flat list of ranks (one iteration each), and an empty value
// (none).
Result<std::vector<std::vector<ForwardPassMetrics>>> ParseAnyIterations(std::string_view text);

// Latency (ms) of an observed iteration: every rank validated, then the slowest one.
Result<double> ObservedForwardPass(const Engine& engine, std::span<const ForwardPassMetrics> ranks);

}  // namespace infercast
