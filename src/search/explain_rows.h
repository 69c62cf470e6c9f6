// The operators behind the figures of a row: each phase of a deployment with its cost by operator
// and, where asked for, what bounds each operator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "engine/breakdown.h"
#include "serving/bounds.h"
#include "serving/encoder_stage.h"
#include "serving/rows.h"
#include "serving/worker.h"
#include "serving/workload.h"

namespace infercast {

// A part of the answer with its operators, e.g. "mix_step", "genonly_step", "encoder", "prefill",
// "decode"; of static modes "context" and "generation".
struct EstimatePhase {
  std::string name;
  std::string about;  // its sizes, for people: "1024 prefill tokens, 110 decoding"; may be empty
  Breakdown operators;
  std::vector<OperatorBound> bounds;  // one per entry of `operators`; empty: not asked for
  PassKind kind = PassKind::kContext;
  double passes = 1;  // of the model that the operators add up
  double share = 0;   // of the time of the workers that run it; 0: not known
};
// Null where there is none of that name.
const EstimatePhase* PhaseNamed(const std::vector<EstimatePhase>& phases, std::string_view name);

// Kinds of steps of an aggregated row's worker, and its encoder.
Status ExplainSteps(const Worker& worker, const Workload& workload, const AggregatedRow& row,
                    std::vector<EstimatePhase>& phases);

// One static batch.
struct ExplainedBatch {
  std::int64_t batch = 1;
  StaticMode mode = StaticMode::kBoth;
  std::uint32_t stride = kDecodeStride;
  double correction = 1;  // factor on all latencies
  const char* context = "context";
  const char* generation = "generation";
};
Status ExplainBatch(const Worker& worker, const Workload& workload, const ExplainedBatch& batch,
                    std::vector<EstimatePhase>& phases);

// The encode workers of a row, as workers that do nothing else; `language`: a worker behind them.
Result<std::shared_ptr<const Worker>> EncodeWorkerOf(const Worker& language,
                                                     const EncoderStage& stage);
Status ExplainEncoder(const Worker& worker, const Workload& workload, std::int64_t batch,
                      std::vector<EstimatePhase>& phases);

// Lists the phases of a worker; asked again for the worker at the speed of light.
using ExplainWorker = FunctionRef<Status(const Worker&, std::vector<EstimatePhase>&)>;

// Fills the bounds of `phases`, which `explain` gave for `worker`. On an error (something cannot be
// priced at the speed of light) communication is still told from the rest.
Status AddBounds(const Worker& worker, ExplainWorker explain, std::vector<EstimatePhase>& phases);
Status AddBounds(const RooflineTwin& twin, ExplainWorker explain,
                 std::vector<EstimatePhase>& phases);

// Of one phase, given the same phase of the twin's workers (null: not known).
void AddBounds(const RooflineTwin& twin, const EstimatePhase* rooflines,
               const EstimatePhase* members, EstimatePhase& phase);

// The note of an answer whose bounds ended in an error.
std::string BoundsUnknown(const Error& error);

}  // namespace infercast
