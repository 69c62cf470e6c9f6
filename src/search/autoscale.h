// Pools that scale on their own: the workers of each pool are chosen separately, one prefill and
// one decode worker stand for a deployment whose counts follow the load.
#pragma once

#include <cstddef>
#include <optional>

#include "base/error.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

struct AutoscaleOptions {
  // Time per output token, ms. Absent: the task's (in reference behaviour the largest of its
  // sweep).
  std::optional<double> tpot;
  std::size_t top_n = 5;
};

// Pairs of one worker each, best tokens/s/GPU first. Where no worker meets a target the nearest are
// taken, with a note. kInvalidArgument for tasks that are not disaggregated or have an encoder
// pool.
Result<TaskTable> RunAutoscale(const ResolvedTask& task, const AutoscaleOptions& options);

}  // namespace infercast
