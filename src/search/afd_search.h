// Attention/feed-forward disaggregated search: the rows of an AFD task.
#pragma once

#include "base/error.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

// Called by RunTask for tasks of mode AFD.
Result<TaskTable> RunAfdTask(const ResolvedTask& task, Workbench& bench);

}  // namespace infercast
