// Measured points made ready to be forecast: the deployment opened and priced, its launch flags
// set, its load described. Preparing is the slow part and does not depend on the corrections, so a
// fit prepares once and forecasts many times.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint.h"
#include "serving/attempts.h"
#include "serving/closed_loop.h"
#include "serving/uncertainty.h"
#include "tables/versions.h"
#include "validation/repairs.h"

namespace infercast {

struct PrepareOptions {
  Behaviour behaviour = Behaviour::kNative;
  bool recipes = true;  // launch flags of the public benchmark's recipes
  // One campaign's rows (see PreparedPoint) get the batch slot that is missing in them.
  bool inferred_slots = true;
};

// One point against its deployment.
struct PreparedPoint {
  std::size_t index = 0;  // in the file
  Backend backend = Backend::kTrtllm;
  bool disaggregated = false;
  BatchPolicy policy;
  KvSpace kv;
  LoadSpec load;
  ForecastKind kind;
  // Of the campaign whose engine serves one request less at once than it is sent: inferred from
  // those rows themselves.
  bool lacks_slot = false;
  std::vector<std::string> notes;
};

// Points of one deployment, forecast one after the other by one thread.
struct PreparedDeployment {
  std::vector<PreparedPoint> points;
  std::optional<Error> error;  // nothing can be priced
  PricedWorker worker;         // aggregated, or the decode pool's
  PricedWorker prefill;        // disaggregated
  std::int64_t prefill_workers = 0, decode_workers = 0;
};

// Answerable points only, grouped by deployment in order of first appearance.
// `points[i]` keeps its index. Runs over deployments in parallel.
std::vector<PreparedDeployment> PreparePoints(std::span<const RepairedPoint> points,
                                              const SystemsCatalog& systems,
                                              const CheckpointSearch& checkpoints,
                                              const PrepareOptions& options);

Result<ServingForecast> ForecastPoint(PreparedDeployment& deployment, const PreparedPoint& point,
                                      const ServingCorrections& corrections);

// Whether the model of a name has experts, by its bundled configuration; false when unknown.
std::function<bool(const std::string&)> MoeTest(const CheckpointSearch& checkpoints);

}  // namespace infercast
