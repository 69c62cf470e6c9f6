// Checks that the evaluations share.
#pragma once

#include "base/error.h"
#include "serving/worker.h"

namespace infercast {

// Sizes are at least 1 (prefix 0) and small enough for a step's arithmetic; kInvalidArgument.
Status CheckWorkload(const Workload& workload, std::int64_t batch);

// The columns that follow from others: users, GPUs, per-GPU rates.
void FillIdentity(const Worker& worker, const Workload& workload, std::int64_t batch,
                  WorkerRow& row);

}  // namespace infercast
