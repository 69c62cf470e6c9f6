// Features of observed iterations.
#include "online/workload.h"

#include <algorithm>
#include <cmath>

namespace infercast {

namespace {

std::optional<ObservedWork> RankWorkload(const ScheduledMetrics& s) {
  const bool prefill = s.sum_prefill_tokens > 0;
  const bool decode = s.num_decode_requests > 0 || s.sum_decode_kv_tokens > 0;
  const double tokens = s.sum_prefill_tokens;
  const double kv = s.sum_decode_kv_tokens;
  if (prefill && decode) return ObservedWork{WorkKind::kMixed, 2, {tokens, kv}};
  if (prefill) return ObservedWork{WorkKind::kPrefill, 1, {tokens, 0.0}};
  if (decode) return ObservedWork{WorkKind::kDecode, 2, {double(s.num_decode_requests), kv}};
  return std::nullopt;
}

}  // namespace

Result<std::optional<ObservedWork>> WorkloadOf(std::span<const ForwardPassMetrics> ranks) {
  if (ranks.empty()) {
    return Fail(ErrorKind::kInvalidForwardPassMetrics,
                "at least one attention-DP rank metric is required");
  }
  std::optional<ObservedWork> heaviest;
  double heaviest_load = 0.0;
  for (const ForwardPassMetrics& rank : ranks) {
    IC_RETURN_IF_ERROR(ValidateMetrics(rank));
    const auto workload = RankWorkload(rank.scheduled_requests);
    if (!workload) continue;
    const double load = workload->x[0] + workload->x[1];
    if (!heaviest || load >= heaviest_load) {
      heaviest = workload;
      heaviest_load = load;
    }
  }
  return heaviest;
}

Result<std::optional<Observation>> ObservationOf(std::span<const ForwardPassMetrics> ranks) {
  IC_ASSIGN(const auto workload, WorkloadOf(ranks));
  double wall_seconds = 0.0;
  for (const ForwardPassMetrics& rank : ranks) {
    if (std::isfinite(rank.wall_time)) wall_seconds = std::max(wall_seconds, rank.wall_time);
  }
  if (!workload || !(wall_seconds > 0.0)) return std::optional<Observation>{};
  return Observation{*workload, 1000.0 * wall_seconds};
}

}  // namespace infercast
