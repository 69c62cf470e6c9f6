// Rows of a search as benchmarks in virtual time, each with as many requests in flight as it has.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

class ReplicaSimulator;

using WorkerMap = std::map<const WorkerIdentity*, std::shared_ptr<const Worker>>;
void AddWorkers(std::span<const std::shared_ptr<const Worker>> workers, WorkerMap& map);

// The closed loop knows neither encoders nor attention/feed-forward disaggregation.
bool CanBeRun(const TaskRow& row);

// Runs rows of one task, one after the other. Steps' prices are kept by pair of workers; answers do
// not depend on what was run before. Not safe to share between threads. `task` and `workers` must
// outlive it.
class RowRunner {
 public:
  RowRunner(const ResolvedTask& task, const WorkerMap& workers);
  RowRunner(RowRunner&&) noexcept;
  ~RowRunner();

  // Sets the row's score and run, unless it has one. False: it cannot be run, error() tells why; or
  // its mean TTFT (ms) is beyond `give_up` (0: runs end as they end).
  bool Run(TaskRow& row, double give_up = 0);
  const std::optional<Error>& error() const { return error_; }

 private:
  Status Try(TaskRow& row, double give_up);

  const ResolvedTask& task_;
  const WorkerMap& workers_;
  std::map<std::pair<const WorkerIdentity*, const WorkerIdentity*>,
           std::unique_ptr<ReplicaSimulator>>
      simulators_;
  std::optional<Error> error_;
};

}  // namespace infercast
