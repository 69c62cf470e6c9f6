#include "search/encoder_pool.h"

#include <fmt/format.h>

#include <utility>

#include "search/encoder_pool_search.h"
#include "serving/pool_limits.h"

namespace infercast {

namespace {

// The encode workers of these widths and batches, on their own system where one is given.
Result<std::vector<EncodeWorker>> EncodersOf(const ResolvedTask& task, std::vector<std::int64_t> tp,
                                             std::vector<std::int64_t> batch, Workbench& bench) {
  const ResolvedRole& role = task.primary();
  ParallelLayout layout;
  layout.moe_tp = 1;
  layout.moe_ep = 1;
  IC_ASSIGN(const ModelPlan plan, role.workers->deployment().Plan(layout));
  if (!plan.vision) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("encode workers need a model that sees images, and {} has no vision "
                            "encoder",
                            role.model->name));
  }
  EncodeRequest request;
  request.vision = &*plan.vision;
  request.backend = role.request.backend;
  request.latency_correction = task.task.epd.latency_correction;
  request.tp = std::move(tp);
  request.batch = std::move(batch);
  if (!task.task.epd.system || *task.task.epd.system == role.request.system) {
    return EvaluateEncodeWorkers(request, *role.database, task.task.workload);
  }
  SystemsCatalog::OpenRequest open;
  open.system = *task.task.epd.system;
  open.backend = role.request.backend;
  open.version = role.request.version;
  open.mode = role.request.mode;
  open.policy = role.request.policy;
  open.behaviour = role.request.behaviour;
  open.allow_unlisted = role.request.allow_unlisted;
  IC_ASSIGN(const Database database, bench.Open(open));
  return EvaluateEncodeWorkers(request, database, task.task.workload);
}

}  // namespace

Result<TaskTable> RunEncoderPoolTask(const ResolvedTask& task, Workbench& bench) {
  const EncoderPoolChoice& choice = task.task.epd;
  const std::vector<std::int64_t> sizes = {1, 2, 4, 8};
  IC_ASSIGN(const std::vector<EncodeWorker> encoders,
            EncodersOf(task, choice.tp.empty() ? sizes : choice.tp,
                       choice.batch.empty() ? sizes : choice.batch, bench));
  return task.task.mode == ServingMode::kDisaggregated
             ? SearchPoolsBehindEncoders(task, encoders)
             : SearchAggregatedBehindEncoders(task, encoders);
}

Status AddEncoderPool(const ResolvedTask& task, const EncoderPoint& point, Workbench& bench,
                      TaskRow& row) {
  if (!point.tp) {
    return Fail(
        ErrorKind::kInvalidArgument,
        "a point with an encoder pool needs the encoder's tensor parallelism (--encoder-tp)");
  }
  IC_RETURN_IF_ERROR(CheckWorkers("the number of encode workers", point.workers));
  IC_RETURN_IF_ERROR(CheckWorkers("the number of language workers", point.language_workers));
  IC_ASSIGN(const std::vector<EncodeWorker> encoders,
            EncodersOf(task, {*point.tp}, {point.batch}, bench));
  EncodeStage stage;
  stage.worker = encoders.front();
  stage.workers = point.workers;
  stage.degradation = task.task.disagg.encoder_degradation;
  if (auto* aggregated = std::get_if<AggregatedRow>(&row.figures)) {
    MultiplyWorkers(point.language_workers, *aggregated);
    AddEncodeStage(stage, *aggregated);
  } else if (auto* pools = std::get_if<DisaggregatedRow>(&row.figures)) {
    if (point.language_workers != 1) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} language workers behind the encoders of separate pools: the "
                              "numbers of prefill and decode workers say how many there are",
                              point.language_workers));
    }
    AddEncodeStage(stage, *pools);
  } else {
    return Fail(ErrorKind::kInvalidArgument,
                "an encoder pool goes with aggregated or disaggregated serving");
  }
  row.encoders = StageOf(stage, row.aggregated() != nullptr ? point.language_workers : 1);
  return {};
}

}  // namespace infercast
