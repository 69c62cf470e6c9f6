// Runs one task: the search of its mode, or one point of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "search/aggregated_search.h"
#include "search/disaggregated_search.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

// A whole search. kNoFeasibleConfig, kDoesNotFit, or what broke every layout, when an aggregated or
// AFD search has no row; a disaggregated search whose pools work but meet no target answers an
// empty table in reference behaviour and kNoFeasibleConfig natively.
Result<TaskTable> RunTask(const ResolvedTask& task, Workbench& bench);
// The latency targets that a task's search tries, and the options of the two searches.
// kInvalidArgument for a request latency without at least two output tokens.
Result<std::vector<LatencyTarget>> TargetsOf(const Task& task);
AggregatedSearchOptions AggregatedOptionsOf(const ResolvedTask& task);
DisaggregatedSearchOptions DisaggregatedOptionsOf(const ResolvedTask& task);

// Resolves, validates, runs.
Result<TaskTable> RunTask(const Task& task, Workbench& bench);

// Encode workers of a point, with encoder pools only.
struct EncoderPoint {
  std::optional<std::int64_t> tp;  // required where the task has an encoder pool
  std::int64_t batch = 1;          // at most 8
  std::int64_t workers = 1;
  std::int64_t language_workers = 1;  // aggregated: workers behind the pool
};

struct AggregatedPoint {
  ParallelLayout layout;
  std::int64_t batch = 1;
  std::optional<std::int64_t> ctx_tokens;  // absent: the input length, images included
  EncoderPoint encoder;
};
struct PoolPoint {
  ParallelLayout layout;
  std::int64_t batch = 1;
  std::int64_t workers = 1;
};
struct DisaggregatedPoint {
  PoolPoint prefill, decode;
  EncoderPoint encoder;
};

// One row, whatever the targets. Of pools: without the queueing factor on the first token.
// kDoesNotFit when it does not fit.
struct TaskPoint {
  TaskRow row;
  std::vector<std::shared_ptr<const Worker>> workers;  // own what the row points to
};
Result<TaskPoint> EvaluateAggregatedPoint(const ResolvedTask& task, const AggregatedPoint& point,
                                          Workbench& bench);
Result<TaskPoint> EvaluateDisaggregatedPoint(const ResolvedTask& task,
                                             const DisaggregatedPoint& point, Workbench& bench);

}  // namespace infercast
