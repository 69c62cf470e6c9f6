// One replica of a deployment as a benchmark would load it: the closed loop with the scheduler,
// the corrections and the memory that its backend has unless the deployment says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "serving/closed_loop.h"
#include "serving/uncertainty.h"
#include "serving/worker.h"

namespace infercast {

struct ReplicaSpec {
  std::shared_ptr<const Worker> worker;   // the one that decodes
  std::shared_ptr<const Worker> prefill;  // null: `worker` prefills as well
  std::int64_t prefill_workers = 1, decode_workers = 1;
  // Launch flags that the deployment fixes; absent: the backend's default.
  std::optional<std::int64_t> ctx_tokens;     // prefill tokens of a step (aggregated)
  std::optional<std::int64_t> batch;          // requests decoding beside them, per rank
  std::optional<std::int64_t> prefill_batch;  // prompts of a step, per rank of a prefill worker
  std::optional<double> memory_fraction;      // of the worker that decodes

  bool disaggregated() const { return prefill != nullptr; }
  std::int64_t decode_ranks() const;  // of all decode workers
};

// The scheduler of the replica under that many requests in flight.
BatchPolicy PolicyOf(const ReplicaSpec& replica, std::int64_t concurrency, std::int64_t isl);
// The fitted constants of its backend; none for a worker at the speed of light, which is to be
// free of everything measured.
ServingCorrections CorrectionsOf(const ReplicaSpec& replica);
// The load that keeps `concurrency` requests in flight; `progress`: tokens per decode step.
LoadSpec ClosedLoad(const Workload& workload, const Worker& worker, std::int64_t concurrency,
                    double progress);

// A run, with all that it was made with.
struct ServingRun {
  LoadSpec load;
  BatchPolicy policy;
  ServingCorrections corrections;
  ServingForecast forecast;
  ForecastKind kind;
  ForecastIntervals intervals;  // of the mean TTFT and TPOT
};

// Prices of the replica's steps, kept from one forecast to the next. Answers do not depend on what
// was asked before. Not safe to share between threads.
class ReplicaSimulator {
 public:
  // kUnsupportedModel for workers whose forward pass was measured as a whole.
  static Result<ReplicaSimulator> Create(ReplicaSpec replica);

  const ReplicaSpec& replica() const { return replica_; }
  // Errors of ForecastClosedLoop and ForecastDisaggregated.
  Result<ServingForecast> Run(const BatchPolicy& policy, const ServingCorrections& corrections,
                              const LoadSpec& load);
  // The same, with the interval in which measurements of such runs have lain.
  Result<ServingRun> Record(const BatchPolicy& policy, const ServingCorrections& corrections,
                            const LoadSpec& load);
  // For another replica of the same workers: other counts, batches or flags.
  void Reshape(const ReplicaSpec& replica);

 private:
  explicit ReplicaSimulator(ReplicaSpec replica) : replica_(std::move(replica)) {}
  Status MakeCosts();

  ReplicaSpec replica_;
  std::shared_ptr<StepCosts> costs_, prefill_costs_;
};

}  // namespace infercast
