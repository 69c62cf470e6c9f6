// Encoder pools: encode workers in front of aggregated or disaggregated serving. The workers behind
// them host no encoder; image tokens still lengthen their context.
#pragma once

#include "base/error.h"
#include "search/run_task.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

// Called by RunTask for tasks with an encoder pool (aggregated or disaggregated).
Result<TaskTable> RunEncoderPoolTask(const ResolvedTask& task, Workbench& bench);

// Called by the evaluations of one point: puts the encode workers of `point` in front of a row that
// was evaluated without them.
Status AddEncoderPool(const ResolvedTask& task, const EncoderPoint& point, Workbench& bench,
                      TaskRow& row);

}  // namespace infercast
