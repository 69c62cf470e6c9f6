#include "search/row_runner.h"

#include <utility>

#include "serving/replica_forecast.h"

namespace infercast {

void AddWorkers(std::span<const std::shared_ptr<const Worker>> workers, WorkerMap& map) {
  for (const std::shared_ptr<const Worker>& worker : workers) {
    map.emplace(&worker->identity(), worker);
  }
}

bool CanBeRun(const TaskRow& row) {
  if (row.encoders || row.afd() != nullptr) return false;
  if (const AggregatedRow* a = row.aggregated()) return !(a->encoder_latency > 0);
  return !(row.disaggregated()->encoder_latency > 0);
}

RowRunner::RowRunner(const ResolvedTask& task, const WorkerMap& workers)
    : task_(task), workers_(workers) {}
RowRunner::RowRunner(RowRunner&&) noexcept = default;
RowRunner::~RowRunner() = default;

bool RowRunner::Run(TaskRow& row, double give_up) {
  if (row.score) return true;
  Status done = Try(row, give_up);
  if (done) return true;
  const bool gave_up = give_up > 0 && done.error().kind == ErrorKind::kNoFeasibleConfig;
  if (!gave_up) error_ = std::move(done.error());
  return false;
}

Status RowRunner::Try(TaskRow& row, double give_up) {
  ReplicaSpec spec;
  spec.memory_fraction = task_.task.memory_fraction;
  std::int64_t batch = 0, gpus = 0;
  const WorkerIdentity* prefill = nullptr;
  const WorkerIdentity* decode = nullptr;
  if (const AggregatedRow* a = row.aggregated()) {
    decode = a->worker;
    spec.ctx_tokens = a->ctx_tokens;
    spec.batch = batch = a->bs;
    gpus = a->num_total_gpus;
  } else {
    const DisaggregatedRow& d = *row.disaggregated();
    prefill = d.prefill.worker;
    decode = d.decode.worker;
    spec.prefill_workers = d.prefill_workers;
    spec.decode_workers = d.decode_workers;
    spec.prefill_batch = d.prefill.bs;
    batch = d.decode.bs;
    gpus = d.num_total_gpus;
  }
  const auto worker = [&](const WorkerIdentity* id) {
    const auto found = workers_.find(id);
    return found == workers_.end() ? nullptr : found->second;
  };
  spec.worker = worker(decode);
  if (prefill != nullptr) spec.prefill = worker(prefill);
  if (spec.worker == nullptr || (prefill != nullptr && spec.prefill == nullptr)) {
    return Fail(ErrorKind::kInternal, "the worker of a row is not kept");
  }
  auto& simulator = simulators_[{decode, prefill}];
  if (!simulator) {
    IC_ASSIGN(ReplicaSimulator made, ReplicaSimulator::Create(spec));
    simulator = std::make_unique<ReplicaSimulator>(std::move(made));
  } else {
    simulator->Reshape(spec);
  }
  const Workload& workload = task_.task.workload;
  LoadSpec load =
      ClosedLoad(workload, *spec.worker, batch * spec.decode_ranks(), task_.speculation.progress());
  load.give_up_ttft = give_up;
  IC_ASSIGN(const ServingRun run, simulator->Record(PolicyOf(spec, load.concurrency, load.isl),
                                                    CorrectionsOf(spec), load));
  row.score = ScoreOf(run.forecast, workload.osl, gpus);
  row.run = std::make_shared<const ServingRun>(run);
  return {};
}

}  // namespace infercast
