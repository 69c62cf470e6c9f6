// Searches behind a pool of encode workers: which language workers, how many of them, and how many
// encode workers of which kind in front.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "search/task_resolution.h"
#include "search/task_table.h"
#include "serving/encoder_pool.h"

namespace infercast {

// The errors of an aggregated search; kNoFeasibleConfig when no combination meets the targets.
Result<TaskTable> SearchAggregatedBehindEncoders(const ResolvedTask& task,
                                                 std::span<const EncodeWorker> encoders);
// The errors of a disaggregated search; no combination: an empty table in reference behaviour,
// kNoFeasibleConfig natively.
Result<TaskTable> SearchPoolsBehindEncoders(const ResolvedTask& task,
                                            std::span<const EncodeWorker> encoders);

// The stage as a row shows it.
EncoderStage StageOf(const EncodeStage& stage, std::int64_t language_workers);

}  // namespace infercast
