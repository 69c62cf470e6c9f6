// How `estimate` answers: figures, memory and operators of one deployment, for people and programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "search/estimate_score.h"

namespace infercast {

struct LoadAnswer;

// Which operators' figures are shown.
struct EstimateDetail {
  bool time = false;    // every operator: latency, share, bound, where it comes from
  bool energy = false;  // energy of every operator, where power was measured
  bool source = false;  // shares of the latency by origin

  bool any() const { return time || energy || source; }
};
// A comma list of summary, memory, time, energy, source, all (the first two are always shown).
// kUsage for another word.
Result<EstimateDetail> ParseEstimateDetail(const std::string& list);

struct EstimateAnswer {
  const EstimateRequest* request = nullptr;
  const PointEstimate* point = nullptr;
  const ScoredEstimate* scored = nullptr;
  const LoadAnswer* load = nullptr;  // of its run; null: none
  std::vector<std::string> notes;
};

std::string EstimateText(const EstimateAnswer& answer, const EstimateDetail& detail);
std::string EstimateJson(const EstimateAnswer& answer, const EstimateDetail& detail);
std::string EstimateCsv(const EstimateAnswer& answer);

}  // namespace infercast
