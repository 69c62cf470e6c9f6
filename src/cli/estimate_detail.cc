#include "cli/estimate_detail.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/load_flags.h"
#include "report/operator_report.h"
#include "tables/database.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

ordered_json OperatorsJson(const EstimatePhase& phase) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < phase.operators.entries.size(); ++i) {
    const OpEntry& e = phase.operators.entries[i];
    ordered_json op = {{"name", e.name},
                       {"latency_ms", e.latency_ms},
                       {"energy_wms", e.energy_wms},
                       {"source", ToString(e.source)},
                       {"origin", ToString(e.origin.kind)},
                       {"provenance", ToString(MarkOf(e.origin))}};
    if (e.origin.octaves > 0) op["octaves_beyond_measurements"] = e.origin.octaves;
    if (e.origin.source != nullptr) {
      op["measured_in"] = {{"version", e.origin.source->version},
                           {"channel", ToString(e.origin.source->channel)}};
    }
    if (e.tier != Tier::kSilicon) op["estimation_tier"] = ToString(e.tier);
    if (i < phase.bounds.size()) {
      const OperatorBound& b = phase.bounds[i];
      op["count"] = b.count;
      op["role"] = ToString(b.role);
      op["bound"] = ToString(b.bound);
      op["attained"] = b.attained ? ordered_json(*b.attained) : ordered_json();
      if (b.bound_ms > 0) {
        op["speed_of_light_ms"] = b.bound_ms;
        op["speed_of_light_compute_ms"] = b.compute_ms;
        op["speed_of_light_memory_ms"] = b.memory_ms;
      }
    }
    list.push_back(std::move(op));
  }
  return list;
}

template <typename E, std::size_t N>
ordered_json SharesJson(const std::array<double, N>& shares) {
  ordered_json json = ordered_json::object();
  for (std::size_t i = 0; i < N; ++i) json[std::string(EnumNames<E>::kNames[i])] = shares[i];
  return json;
}

// What measurements of such deployments did to such forecasts.
std::string IntervalText(const LoadAnswer& load) {
  const double ttft = load.run.forecast.ttft.mean, tpot = load.run.forecast.tpot.mean;
  if (!(ttft > 0 && tpot > 0)) return "";
  return fmt::format(
      "  of measured deployments like this, 8 of 10 had {:.2f} to {:.2f} times the forecast time "
      "to first token\n  and {:.2f} to {:.2f} times the forecast time per output token\n",
      load.intervals.ttft.low / ttft, load.intervals.ttft.high / ttft,
      load.intervals.tpot.low / tpot, load.intervals.tpot.high / tpot);
}

}  // namespace

std::string DetailText(const std::vector<EstimatePhase>& phases, const LoadAnswer* load,
                       const EstimateDetail& detail) {
  std::string text;
  if (detail.time || detail.energy) {
    text += OperatorTables(phases, detail.energy);
    if (detail.time) text += WhereTimeGoes(phases);
  }
  if (detail.source || detail.time) {
    const std::string trust = TrustText(phases);
    text += trust;
    if (!trust.empty() && load != nullptr) text += IntervalText(*load);
  }
  return text;
}

void AddDetail(const std::vector<EstimatePhase>& phases, ordered_json& json) {
  ordered_json time = ordered_json::array();
  for (const EstimatePhase& phase : phases) {
    json["operators"][phase.name] = OperatorsJson(phase);
    const PhaseSummary summary = SummaryOf(phase);
    ordered_json largest = ordered_json::array();
    for (const auto& [name, share] : summary.largest) {
      largest.push_back({{"name", name}, {"share", share}});
    }
    time.push_back(
        {{"phase", phase.name},
         {"latency_ms", summary.latency_ms},
         {"passes", phase.passes},
         {"share_of_time", phase.share > 0 ? ordered_json(phase.share) : ordered_json()},
         {"by_bound", phase.bounds.empty() ? ordered_json() : SharesJson<Bound>(summary.by_bound)},
         {"by_provenance", SharesJson<Mark>(summary.by_mark)},
         {"largest", std::move(largest)},
         {"advice", summary.advice}});
  }
  json["time"] = std::move(time);
  const TrustSummary trust = TrustOf(phases);
  json["trust"] = {{"by_provenance", SharesJson<Mark>(trust.by_mark)},
                   {"octaves_beyond_measurements", trust.octaves}};
}

}  // namespace infercast
