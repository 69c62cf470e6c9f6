// Runs experiments one by one, picks from each, and says which is best. One failing experiment does
// not stop the others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/picking.h"
#include "search/rescore.h"
#include "search/task.h"
#include "search/task_table.h"
#include "search/workbench.h"

namespace infercast {

struct Experiment {
  std::string name;
  Task task;
};

struct ExperimentOptions {
  std::size_t top_n = 5;
  bool strict = false;                  // drop rows that miss the targets
  std::optional<LoadTarget> load;       // size for a load instead of filling the task's GPUs
  ScoredBy score = ScoredBy::kFormula;  // closed loop: native behaviour only
  bool merge = false;  // more than two experiments: one result for each serving mode
};

// A row that was picked.
struct PickedRow {
  TaskRow row;
  Pick pick;
  std::optional<Backend> backend;  // of the experiment, where results of several were merged
};

// What is shown of an experiment, or of the experiments of one mode.
struct ExperimentResult {
  std::string name;
  std::vector<PickedRow> best;
  std::vector<PickedRow> front;
  double best_value = 0;  // comparable between results: throughput, or 1 / GPUs for a load
  bool exceeded = false;  // no row meets the target: the nearest are shown
};

// How one experiment ended.
struct ExperimentOutcome {
  std::string name;
  Task task;  // resolved where that succeeded
  std::optional<Error> error;
  TaskTable table;
  PickResult pick;  // positions in `table.rows`
};

struct ExperimentsResult {
  ExperimentOptions options;                // that it was run with
  std::string chosen;                       // name of the best result; "" when there is none
  std::vector<ExperimentResult> results;    // of the experiments that gave rows, in order
  std::vector<ExperimentOutcome> outcomes;  // of all, in order

  const ExperimentResult* Find(std::string_view name) const;
};

// Whether every version that an experiment names can be opened: kUnknownName, with the experiment's
// name, for the first that cannot. The reference asks this before it runs any of a file's
// experiments; natively a wrong version is the error of its own experiment.
Status CheckVersions(std::span<const Experiment> experiments, Workbench& bench);

// kNoFeasibleConfig (with the reasons of each) when no experiment gives a row.
Result<ExperimentsResult> RunExperiments(std::span<const Experiment> experiments,
                                         const ExperimentOptions& options, Workbench& bench);

}  // namespace infercast
