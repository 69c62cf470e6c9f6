// The operators of a deployment as a readable page: where the time of each phase goes, what bounds
// each operator and how near it comes, where the latencies are from, and what would help.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/modes.h"
#include "operators/perf_result.h"
#include "search/explain_rows.h"

namespace infercast {

// Provenance in four words.
enum class Mark : std::uint8_t { kMeasured, kInterpolated, kEstimated, kSpeedOfLight };
template <>
struct EnumNames<Mark> {
  static constexpr std::string_view kType = "provenance";
  static constexpr std::array<std::string_view, 4> kNames = {"measured", "interpolated",
                                                             "estimated", "speed_of_light"};
};
Mark MarkOf(const Origin& origin);

// "step with prefill", "decode step", ... of a phase's name.
std::string_view TitleOf(const EstimatePhase& phase);

// The title with its sizes: "decode step (128 decoding, mean of 999 steps)".
std::string PhaseHeading(const EstimatePhase& phase);

// Stands for the sum of other entries of its phase (what crosses between the sides of an
// attention/feed-forward split).
bool IsSumOfOthers(const OpEntry& e);

// "62 % of bandwidth", "launch", "communication, 38 % of the links"; "" for what costs nothing.
std::string BoundText(const OperatorBound& bound);

// Shares of a phase's latency, in [0, 1].
struct PhaseSummary {
  double latency_ms = 0;  // of all passes
  std::array<double, EnumNames<Bound>::kNames.size()> by_bound{};
  std::array<double, EnumNames<Mark>::kNames.size()> by_mark{};
  double octaves = 0;  // how far beyond measurements at most, among operators of 1 % and more
  std::vector<std::pair<std::string, double>> largest;  // the three largest operators
  std::string advice;                                   // what would help; "" without bounds
};
PhaseSummary SummaryOf(const EstimatePhase& phase);

// Shares by provenance over all phases, each counted as long as it lasts.
struct TrustSummary {
  std::array<double, EnumNames<Mark>::kNames.size()> by_mark{};
  double octaves = 0;
};
TrustSummary TrustOf(const std::vector<EstimatePhase>& phases);

// One table per phase, largest operator first; operators that cost nothing are left out. `energy`:
// with the energy of each, where power was measured.
std::string OperatorTables(const std::vector<EstimatePhase>& phases, bool energy);
// Each phase by bound, its largest operators, what would help.
std::string WhereTimeGoes(const std::vector<EstimatePhase>& phases);
std::string TrustText(const std::vector<EstimatePhase>& phases);

}  // namespace infercast
