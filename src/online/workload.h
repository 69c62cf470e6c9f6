// What an observed iteration was mostly about: the kind of its heaviest rank and one or two numbers
// that say how much of it there was.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "engine/forward_pass_metrics.h"

namespace infercast {

enum class WorkKind : std::uint8_t { kPrefill, kDecode, kMixed };
inline constexpr std::size_t kNumWorkKinds = 3;

// Prefill: {new tokens}. Decode: {requests, KV tokens}. Mixed: {new tokens, KV tokens of decode}.
struct ObservedWork {
  WorkKind kind{};
  int axes = 1;
  std::array<double, 2> x{};
};

constexpr int AxesOf(WorkKind kind) { return kind == WorkKind::kPrefill ? 1 : 2; }

// The workload of an iteration: that of the rank with the most (tokens and requests added up; of
// equals the last). None when no rank had work. kInvalidForwardPassMetrics without ranks; errors of
// ValidateMetrics.
Result<std::optional<ObservedWork>> WorkloadOf(std::span<const ForwardPassMetrics> ranks);

struct Observation {
  ObservedWork workload;
  double latency_ms = 0;  // the slowest rank, idle ones included
};
// None when there was no work or no wall time.
Result<std::optional<Observation>> ObservationOf(std::span<const ForwardPassMetrics> ranks);

}  // namespace infercast
