#include "serving/replica_forecast.h"

#include <algorithm>

namespace infercast {

std::int64_t ReplicaSpec::decode_ranks() const {
  return std::max<std::int64_t>(1, worker->plan().layout.dp) * decode_workers;
}

BatchPolicy PolicyOf(const ReplicaSpec& replica, std::int64_t concurrency, std::int64_t isl) {
  const Backend backend = replica.worker->backend();
  BatchPolicy policy = DefaultBatchPolicy(backend, replica.worker->system(), concurrency, isl);
  if (replica.disaggregated()) {
    policy.token_budget = PrefillPoolBudget(backend);
  } else if (replica.ctx_tokens) {
    // The budget holds the decodes of the step as well, except where prompts run alone.
    policy.token_budget = *replica.ctx_tokens;
    if (policy.rule != BatchingRule::kPromptsFirst) {
      policy.token_budget += replica.batch.value_or(0);
    }
  }
  if (replica.memory_fraction) policy.memory_fraction = *replica.memory_fraction;
  return policy;
}

ServingCorrections CorrectionsOf(const ReplicaSpec& replica) {
  const DatabaseMode mode = replica.worker->engine().database().mode();
  if (mode == DatabaseMode::kSol || mode == DatabaseMode::kSolFull) return NoCorrections();
  return DefaultCorrections(replica.worker->backend(), replica.disaggregated());
}

LoadSpec ClosedLoad(const Workload& workload, const Worker& worker, std::int64_t concurrency,
                    double progress) {
  LoadSpec load;
  load.isl = workload.isl + worker.VisualTokensOf(workload);
  load.osl = workload.osl;
  load.prefix = workload.prefix;
  load.concurrency = concurrency;
  load.progress = progress;
  return load;
}

Status ReplicaSimulator::MakeCosts() {
  IC_ASSIGN(costs_, StepCosts::Create(replica_.worker));
  if (replica_.prefill) {
    IC_ASSIGN(prefill_costs_, StepCosts::Create(replica_.prefill));
  }
  return {};
}

Result<ReplicaSimulator> ReplicaSimulator::Create(ReplicaSpec replica) {
  ReplicaSimulator simulator(std::move(replica));
  IC_RETURN_IF_ERROR(simulator.MakeCosts());
  return simulator;
}

void ReplicaSimulator::Reshape(const ReplicaSpec& replica) { replica_ = replica; }

Result<ServingForecast> ReplicaSimulator::Run(const BatchPolicy& policy,
                                              const ServingCorrections& corrections,
                                              const LoadSpec& load) {
  // A step that could not be priced leaves its error behind: what comes next starts afresh.
  if (!costs_->status() || (prefill_costs_ && !prefill_costs_->status())) {
    IC_RETURN_IF_ERROR(MakeCosts());
  }
  IC_ASSIGN(const KvSpace kv, KvSpaceOf(*replica_.worker, policy));
  if (!replica_.disaggregated()) {
    return ForecastClosedLoop(*costs_, policy, corrections, kv, load);
  }
  DisaggregatedPools pools;
  pools.prefill = prefill_costs_.get();
  pools.decode = costs_.get();
  pools.prefill_workers = replica_.prefill_workers;
  pools.decode_workers = replica_.decode_workers;
  pools.prefill_policy = policy;
  pools.prefill_policy.max_requests = replica_.prefill_batch.value_or(0);
  pools.decode_kv = kv;
  pools.decode_kv_output_share = policy.kv_output_share;
  return ForecastDisaggregated(pools, corrections, load);
}

Result<ServingRun> ReplicaSimulator::Record(const BatchPolicy& policy,
                                            const ServingCorrections& corrections,
                                            const LoadSpec& load) {
  ServingRun run;
  IC_ASSIGN(run.forecast, Run(policy, corrections, load));
  run.load = load;
  run.policy = policy;
  run.corrections = corrections;
  const std::int64_t in_flight = std::max<std::int64_t>(load.concurrency, 1);
  const std::int64_t ranks = replica_.decode_ranks();
  run.kind = KindOf(*replica_.worker, replica_.disaggregated(), (in_flight + ranks - 1) / ranks,
                    load.isl, load.osl);
  run.intervals = IntervalsOf(run.kind, run.forecast.ttft.mean, run.forecast.tpot.mean);
  return run;
}

}  // namespace infercast
