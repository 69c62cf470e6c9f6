// From a task as given to one that can run: draft depth, versions, number formats, candidate
// layouts, replica sizes. Nothing is evaluated here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/large_ep.h"
#include "models/mode_adjustment.h"
#include "models/model_config.h"
#include "search/disaggregated_search.h"
#include "search/task.h"
#include "search/workbench.h"
#include "serving/workload.h"
#include "tables/database.h"

namespace infercast {

// One role of a resolved task.
struct ResolvedRole {
  WorkerRole role = WorkerRole::kAggregated;
  std::shared_ptr<const ModelConfig> model;
  std::optional<Database> database;  // set
  DeploymentRequest request;         // what a worker of this role is, number formats settled
  std::vector<ParallelLayout> layouts;
  ExpertChoice experts;  // measured expert-parallel sizes, null for dense models
  std::shared_ptr<WorkerPool> workers;

  // Whether a layout's experts run with large expert parallelism.
  bool IsLargeEp(const ParallelLayout& layout) const;
};

struct ResolvedTask {
  Task task;  // versions, lists, replica limits, draft depth and modes filled in
  std::vector<ResolvedRole> roles;  // the worker's, or those of prefill and decode
  Speculation speculation;
  ReplicaRules replica;
  std::vector<std::string> notes;

  const ResolvedRole& primary() const { return roles.front(); }
  const ResolvedRole& decode() const { return roles.back(); }
};

// kInvalidArgument for contradictory settings (the message names them), kUnknownName for an unknown
// model, system or version, kPerfDatabase where nothing was measured, kUnsupportedModel.
Result<ResolvedTask> ResolveTask(Task task, Workbench& bench);

// The checks that a run makes before it evaluates anything: settings that do not go together,
// number formats that were not measured. kInvalidArgument, kMissingSystemFlops, kUnsupportedModel.
Status ValidateTask(const ResolvedTask& task);

// Draft depth and acceptance: `nextn` absent takes the checkpoint's depth. kInvalidArgument.
Result<Speculation> ResolveSpeculation(std::optional<std::int64_t> nextn,
                                       std::optional<double> accepted, const ModelConfig& model);

}  // namespace infercast
