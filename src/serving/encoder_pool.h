// A pool of encode workers: the vision encoder on GPUs of its own, in front of language workers
// that host none. What one encode worker does, and what the pool adds to the row of those behind
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "models/model_plan.h"
#include "serving/disaggregated.h"
#include "serving/rows.h"
#include "serving/workload.h"
#include "tables/database.h"

namespace infercast {

// One encode worker at one batch size.
struct EncodeWorker {
  std::int64_t tp = 1;  // GPUs, too: images are not spread over the group
  std::int64_t bs = 1;  // requests
  double latency = 0;   // ms per batch
  double seq_s = 0;     // requests per second
  double memory = 0;    // GiB per GPU, without the runtime's reserves
  double power_w = 0;
  double power_coverage = 0;
};

// SGLang's limit of an encoder's batch.
inline constexpr std::int64_t kMaxEncoderBatch = 8;

struct EncodeRequest {
  const VisionFacts* vision = nullptr;
  Backend backend = Backend::kTrtllm;
  double latency_correction = 1;
  // Each at most kMaxEncoderBatch.
  std::vector<std::int64_t> tp, batch;
};

// The workers worth having: of each width, in order, the batches that raise its rate. Latency and
// memory rounded to three decimals in reference behaviour. kInvalidArgument for workloads without
// images and batches beyond the limit, kDoesNotFit, kNoFeasibleConfig when no width can be built.
Result<std::vector<EncodeWorker>> EvaluateEncodeWorkers(const EncodeRequest& request,
                                                        const Database& database,
                                                        const Workload& workload);

// The stage in front of a row: `workers` encode workers, their latency `queueing` times before the
// first token, and `degradation` of their rate usable.
struct EncodeStage {
  EncodeWorker worker;
  std::int64_t workers = 1;
  double queueing = 1;
  double degradation = 0.9;

  double Rate() const { return worker.seq_s * degradation * static_cast<double>(workers); }
};
// Figures of `copies` workers that serve side by side.
void MultiplyWorkers(std::int64_t copies, AggregatedRow& row);
void AddEncodeStage(const EncodeStage& stage, AggregatedRow& row);
void AddEncodeStage(const EncodeStage& stage, DisaggregatedRow& row);

}  // namespace infercast
