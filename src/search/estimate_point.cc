// One given deployment: opens what it needs, fits number formats to the system, evaluates, and
// lists the operators of each phase.
#include "search/estimate_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "models/large_ep.h"
#include "models/mode_adjustment.h"
#include "search/afd_estimate.h"
#include "search/estimate_setup.h"
#include "search/run_task.h"
#include "search/task_resolution.h"
#include "serving/deployment.h"
#include "serving/pool_limits.h"

namespace infercast {

namespace {

constexpr double kEnoughPower = 0.9;  // of the latency must have measured power

// One worker of an estimate.
struct Built {
  std::shared_ptr<const Deployment> deployment;
  std::shared_ptr<const Worker> worker;
};

// `large_ep`: the phases whose expert exchange must be measured across nodes; absent: experts run
// as the fused block.
Result<Built> Build(const EstimateRequest& request, const std::string& system, WorkerRole role,
                    const ParallelLayout& layout, std::optional<PhaseNeeds> large_ep,
                    std::shared_ptr<const ModelConfig> model, const Speculation& speculation,
                    Workbench& bench, std::vector<std::string>& notes) {
  IC_ASSIGN(EstimateSetup setup, SetUpEstimate(request, system, speculation, bench));
  const Database& database = setup.database;
  DeploymentRequest& deploy = setup.deploy;
  BuildOptions& build = deploy.build;
  build.layout = layout;
  build.encoder_data_parallel = request.encoder_data_parallel;
  build.forward_model = request.forward_model;
  if (model->IsMoe()) IC_RETURN_IF_ERROR(ResolveExpertWidth(build.layout));
  if (large_ep) {
    IC_RETURN_IF_ERROR(ChooseLargeEp(*model, database, *large_ep, nullptr, build));
  }
  IC_RETURN_IF_ERROR(AdjustForEstimate(*model, database, role, build, notes));
  Built built;
  IC_ASSIGN(built.deployment, Deployment::Open(deploy, database, std::move(model)));
  IC_ASSIGN(built.worker, built.deployment->MakeWorker(build));
  return built;
}

ParallelLayout LayoutOf(const ParallelLayout& shared, const PoolSizes& own) {
  ParallelLayout layout = shared;
  if (own.tp) layout.tp = *own.tp;
  if (own.pp) layout.pp = *own.pp;
  if (own.dp) layout.dp = *own.dp;
  if (own.moe_tp) layout.moe_tp = own.moe_tp;
  if (own.moe_ep) layout.moe_ep = own.moe_ep;
  return layout;
}

std::unexpected<Error> DoesNotFit(const EstimateRequest& request, const WorkerRow& row,
                                  const char* what, const char* advice) {
  return Fail(ErrorKind::kDoesNotFit,
              fmt::format("{} does not fit in the memory of {} as {}{}: {:.1f} GiB are needed per "
                          "GPU; {}",
                          request.model, row.worker->system, what, row.worker->parallel,
                          row.memory.total, advice));
}

void SetPower(PointEstimate& out, double power_w, double coverage) {
  out.power_coverage = coverage;
  if (coverage >= kEnoughPower && std::isfinite(power_w)) out.power_w = power_w;
}

// The phases of one worker, with their bounds where asked for.
Status Explain(const EstimateRequest& request, const Worker& worker, ExplainWorker explain,
               PointEstimate& out) {
  std::vector<EstimatePhase> phases;
  IC_RETURN_IF_ERROR(explain(worker, phases));
  if (request.bounds) {
    const Status bounded = AddBounds(worker, explain, phases);
    if (!bounded) out.notes.push_back(BoundsUnknown(bounded.error()));
  }
  std::move(phases.begin(), phases.end(), std::back_inserter(out.phases));
  return {};
}

// The phases of both pools.
Status ExplainPools(const EstimateRequest& request, const Worker& prefill,
                    double prefill_correction, const Worker& decode, double decode_correction,
                    PointEstimate& out) {
  const auto explain_prefill = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainBatch(w, request.workload,
                        {.batch = *request.prefill.batch,
                         .mode = StaticMode::kContext,
                         .correction = prefill_correction,
                         .context = "prefill"},
                        phases);
  };
  const auto explain_decode = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainBatch(w, request.workload,
                        {.batch = *request.decode.batch,
                         .mode = StaticMode::kGeneration,
                         .correction = decode_correction,
                         .generation = "decode"},
                        phases);
  };
  IC_RETURN_IF_ERROR(Explain(request, prefill, explain_prefill, out));
  return Explain(request, decode, explain_decode, out);
}

Result<PointEstimate> EstimateAggregated(const EstimateRequest& request,
                                         std::shared_ptr<const ModelConfig> model,
                                         const Speculation& speculation, Workbench& bench) {
  PointEstimate out;
  // The aggregated estimate keeps experts fused, also across nodes, as the reference does.
  std::optional<PhaseNeeds> large_ep;
  if (request.behaviour == Behaviour::kNative) large_ep = PhaseNeeds{};
  IC_ASSIGN(const Built built,
            Build(request, request.system, WorkerRole::kAggregated, request.layout, large_ep,
                  std::move(model), speculation, bench, out.notes));
  EvaluationOptions options;
  options.memory_fraction = request.memory_fraction;
  options.max_seq_len = request.max_seq_len;
  options.decode_progress = speculation.progress();
  const Worker& worker = *built.worker;
  const std::int64_t isl = request.workload.isl + worker.VisualTokensOf(request.workload);
  IC_ASSIGN(
      AggregatedRow row,
      EvaluateAggregated(worker, request.workload, request.batch,
                         request.ctx_tokens.value_or(
                             request.behaviour == Behaviour::kNative ? isl : request.workload.isl),
                         options));
  if (row.verdict.oom) {
    return DoesNotFit(request, row, "", "use more GPUs (tp) or a smaller batch");
  }
  if (row.verdict.kv_oom) {
    out.kv_warning = fmt::format(
        "the KV cache of {} requests exceeds the engine's KV budget: the scheduler would run fewer "
        "at once",
        request.batch);
  }
  const auto explain = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainSteps(w, request.workload, row, phases);
  };
  IC_RETURN_IF_ERROR(Explain(request, worker, explain, out));
  SetPower(out, row.power_w, row.power_coverage);
  out.version = built.deployment->version();
  out.workers = {built.worker};
  out.row = TaskRow{row, std::nullopt};
  return out;
}

Result<PointEstimate> EstimateStatic(const EstimateRequest& request,
                                     std::shared_ptr<const ModelConfig> model,
                                     const Speculation& speculation, Workbench& bench) {
  const StaticMode mode = request.mode == EstimateMode::kStatic          ? StaticMode::kBoth
                          : request.mode == EstimateMode::kStaticContext ? StaticMode::kContext
                                                                         : StaticMode::kGeneration;
  PointEstimate out;
  const WorkerRole role =
      mode == StaticMode::kGeneration ? WorkerRole::kDecode : WorkerRole::kAggregated;
  IC_ASSIGN(const Built built,
            Build(request, request.system, role, request.layout,
                  PhaseNeeds{.context = true, .generation = mode != StaticMode::kContext},
                  std::move(model), speculation, bench, out.notes));
  const Worker& worker = *built.worker;
  EvaluationOptions options;
  options.stride = request.stride;
  const bool native = request.behaviour == Behaviour::kNative;
  if (native) {
    options.memory_fraction = request.memory_fraction;
    options.max_seq_len = request.max_seq_len;
  }
  IC_ASSIGN(StaticRow row, EvaluateStatic(worker, request.workload, request.batch, mode, options));
  out.out_of_memory = row.verdict.oom;
  if (row.verdict.kv_oom) {
    out.kv_warning = "the KV cache of this batch exceeds the engine's KV budget";
  }
  if (mode == StaticMode::kBoth) ProjectStaticSpeculation(row, speculation.accepted, !native);
  if (mode == StaticMode::kGeneration) ProjectSpeculation(row, speculation.accepted, !native);
  const auto explain = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainBatch(w, request.workload,
                        {.batch = request.batch, .mode = mode, .stride = request.stride}, phases);
  };
  IC_RETURN_IF_ERROR(Explain(request, worker, explain, out));
  SetPower(out, row.power_w, row.power_coverage);
  out.version = built.deployment->version();
  out.workers = {built.worker};
  out.static_row = row;
  return out;
}

Status CheckPoolSizes(const EstimateRequest& request) {
  const auto required = [](const char* name, const std::optional<std::int64_t>& v) -> Status {
    if (v && *v >= 1) return {};
    if (v) {
      return Fail(ErrorKind::kInvalidArgument, fmt::format("{} is {}: at least 1", name, *v));
    }
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} is required in disaggregated mode", name));
  };
  IC_RETURN_IF_ERROR(required("prefill_batch_size", request.prefill.batch));
  IC_RETURN_IF_ERROR(required("prefill_num_workers", request.prefill.workers));
  IC_RETURN_IF_ERROR(CheckWorkers("prefill_num_workers", *request.prefill.workers));
  IC_RETURN_IF_ERROR(required("decode_batch_size", request.decode.batch));
  IC_RETURN_IF_ERROR(required("decode_num_workers", request.decode.workers));
  return CheckWorkers("decode_num_workers", *request.decode.workers);
}

Result<PointEstimate> EstimateDisaggregated(const EstimateRequest& request,
                                            const std::shared_ptr<const ModelConfig>& model,
                                            const Speculation& speculation, Workbench& bench) {
  IC_RETURN_IF_ERROR(CheckPoolSizes(request));
  PointEstimate out;
  IC_ASSIGN(const Built prefill, Build(request, request.system, WorkerRole::kPrefill,
                                       LayoutOf(request.layout, request.prefill),
                                       PhaseNeeds{.context = true, .generation = false}, model,
                                       speculation, bench, out.notes));
  IC_ASSIGN(const Built decode, Build(request, request.decode_system.value_or(request.system),
                                      WorkerRole::kDecode, LayoutOf(request.layout, request.decode),
                                      PhaseNeeds{.context = false, .generation = true}, model,
                                      speculation, bench, out.notes));
  const DisaggregatedChoice defaults;
  const bool reference = request.behaviour == Behaviour::kReference;
  const auto evaluate = [&](const Built& built, const PoolSizes& sizes, StaticMode mode,
                            double correction) -> Result<StaticRow> {
    EvaluationOptions options;
    options.latency_correction = correction;
    options.memory_fraction =
        sizes.memory_fraction ? sizes.memory_fraction : request.memory_fraction;
    options.max_seq_len = sizes.max_seq_len ? sizes.max_seq_len : request.max_seq_len;
    IC_ASSIGN(StaticRow row,
              EvaluateStatic(*built.worker, request.workload, *sizes.batch, mode, options));
    if (!row.verdict.fits()) {
      return DoesNotFit(request, row, mode == StaticMode::kContext ? "prefill " : "decode ",
                        row.verdict.oom ? "use more GPUs or a smaller batch"
                                        : "the KV cache exceeds its budget: use a smaller batch");
    }
    if (reference) RoundColumns(row);
    return row;
  };
  IC_ASSIGN(StaticRow p, evaluate(prefill, request.prefill, StaticMode::kContext,
                                  defaults.prefill_latency_correction));
  IC_ASSIGN(StaticRow d, evaluate(decode, request.decode, StaticMode::kGeneration,
                                  defaults.decode_latency_correction));
  ProjectSpeculation(d, speculation.accepted, reference);
  const PoolFactors factors;
  p.ttft *= factors.ttft_queueing;
  DisaggregatedRow row =
      ComposeDisaggregated(p, d, *request.prefill.workers, *request.decode.workers, factors);
  if (reference) RoundColumns(row);

  IC_RETURN_IF_ERROR(ExplainPools(request, *prefill.worker, defaults.prefill_latency_correction,
                                  *decode.worker, defaults.decode_latency_correction, out));
  const double prefill_ms = p.encoder_latency + p.context_latency;
  const double total_ms = prefill_ms + d.generation_latency;
  SetPower(
      out, row.power_w,
      total_ms > 0
          ? (p.power_coverage * prefill_ms + d.power_coverage * d.generation_latency) / total_ms
          : 0);
  out.version = prefill.deployment->version();
  if (decode.deployment->version() != out.version) {
    out.version += "-" + decode.deployment->version();
  }
  out.workers = {prefill.worker, decode.worker};
  out.row = TaskRow{row, std::nullopt};
  return out;
}

// The task that describes an estimate behind encode workers.
Task EncoderPoolTask(const EstimateRequest& r, const Speculation& speculation) {
  Task task;
  task.workload = r.workload;
  task.database_mode = r.database_mode;
  task.policy = r.policy;
  task.memory_fraction = r.memory_fraction;
  task.max_seq_len = r.max_seq_len;
  task.forward_model = r.forward_model;
  task.nextn = speculation.nextn;
  task.nextn_accepted = r.nextn_accepted;
  task.moe_backend = r.moe_backend;
  task.behaviour = r.behaviour;
  task.allow_unlisted_versions = r.allow_unlisted_versions;
  task.epd.enabled = true;
  task.epd.latency_correction = r.epd.latency_correction;
  if (r.behaviour == Behaviour::kNative) {
    // The reference drops these two here.
    task.attention_backend = r.attention_backend;
    task.epd.system = r.epd.system;
  }
  RoleChoice role;
  role.model = r.model;
  role.system = r.system;
  role.backend = r.backend;
  role.version = r.version;
  role.quant = r.quant;
  if (r.mode == EstimateMode::kDisagg) {
    task.mode = ServingMode::kDisaggregated;
    task.prefill = task.decode = role;
    task.decode.system = r.decode_system.value_or(r.system);
  } else {
    task.worker = role;
  }
  return task;
}

Result<ParallelLayout> WithExpertWidth(ParallelLayout layout, const ModelConfig& model) {
  if (model.IsMoe()) {
    IC_RETURN_IF_ERROR(ResolveExpertWidth(layout));
  } else {
    layout.moe_tp = layout.moe_ep = 1;
  }
  return layout;
}

Status ExplainBehindEncoders(const EstimateRequest& request, const Task& task, PointEstimate& out) {
  const auto encode = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainEncoder(w, request.workload, out.row->encoders->bs, phases);
  };
  // Encode workers on another system stay without a breakdown.
  if (!task.epd.system || *task.epd.system == task.primary().system) {
    IC_ASSIGN(const std::shared_ptr<const Worker> encoder,
              EncodeWorkerOf(*out.workers.front(), *out.row->encoders));
    IC_RETURN_IF_ERROR(Explain(request, *encoder, encode, out));
  }
  if (const AggregatedRow* row = out.row->aggregated()) {
    const auto steps = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
      return ExplainSteps(w, request.workload, *row, phases);
    };
    return Explain(request, *out.workers.front(), steps, out);
  }
  return ExplainPools(request, *out.workers.front(), task.disagg.prefill_latency_correction,
                      *out.workers.back(), task.disagg.decode_latency_correction, out);
}

Result<PointEstimate> EstimateBehindEncoders(const EstimateRequest& request,
                                             const ModelConfig& model,
                                             const Speculation& speculation, Workbench& bench) {
  for (const PoolSizes* pool : {&request.prefill, &request.decode}) {
    if (pool->memory_fraction || pool->max_seq_len) {
      return Fail(ErrorKind::kInvalidArgument,
                  "with an encoder pool, memory fraction and sequence length are set for all roles "
                  "together");
    }
  }
  IC_ASSIGN(const ResolvedTask resolved, ResolveTask(EncoderPoolTask(request, speculation), bench));
  IC_RETURN_IF_ERROR(ValidateTask(resolved));
  const EncoderPoint encoder{request.encoder_tp, request.encoder_batch.value_or(1),
                             request.encoder_workers.value_or(1), request.language_workers};
  Result<TaskPoint> point = Fail(ErrorKind::kInternal, "");
  if (request.mode == EstimateMode::kDisagg) {
    IC_RETURN_IF_ERROR(CheckPoolSizes(request));
    IC_ASSIGN(const ParallelLayout p,
              WithExpertWidth(LayoutOf(request.layout, request.prefill), model));
    IC_ASSIGN(const ParallelLayout d,
              WithExpertWidth(LayoutOf(request.layout, request.decode), model));
    point = EvaluateDisaggregatedPoint(resolved,
                                       {{p, *request.prefill.batch, *request.prefill.workers},
                                        {d, *request.decode.batch, *request.decode.workers},
                                        encoder},
                                       bench);
  } else {
    IC_ASSIGN(const ParallelLayout layout, WithExpertWidth(request.layout, model));
    point = EvaluateAggregatedPoint(resolved, {layout, request.batch, request.ctx_tokens, encoder},
                                    bench);
  }
  if (!point) return std::unexpected(point.error());
  PointEstimate out;
  out.notes = resolved.notes;
  out.version = *resolved.task.primary().version;
  if (request.mode == EstimateMode::kDisagg && resolved.task.decode.version != out.version) {
    out.version += "-" + *resolved.task.decode.version;
  }
  // Nothing tells how much of the pools' steps was measured with its power.
  if (const AggregatedRow* row = point->row.aggregated()) {
    SetPower(out, row->power_w, row->power_coverage);
  }
  out.workers = std::move(point->workers);
  out.row = std::move(point->row);
  IC_RETURN_IF_ERROR(ExplainBehindEncoders(request, resolved.task, out));
  return out;
}

}  // namespace

Result<PointEstimate> EstimatePoint(const EstimateRequest& request, Workbench& bench) {
  if (request.mode == EstimateMode::kAfd) return EstimateAfdPoint(request, bench);
  IC_ASSIGN(const std::shared_ptr<const ModelConfig> model, bench.Model(request.model));
  IC_ASSIGN(const Speculation speculation,
            ResolveSpeculation(request.nextn, request.nextn_accepted, *model));
  Result<PointEstimate> out = Fail(ErrorKind::kInternal, "");
  if (request.epd.enabled) {
    if (request.mode != EstimateMode::kAgg && request.mode != EstimateMode::kDisagg) {
      return Fail(ErrorKind::kInvalidArgument,
                  "an encoder pool goes with aggregated and disaggregated estimates");
    }
    out = EstimateBehindEncoders(request, *model, speculation, bench);
    if (out) out->mode = request.mode;
    return out;
  }
  switch (request.mode) {
    case EstimateMode::kAgg:
      out = EstimateAggregated(request, model, speculation, bench);
      break;
    case EstimateMode::kDisagg:
      out = EstimateDisaggregated(request, model, speculation, bench);
      break;
    default:
      out = EstimateStatic(request, model, speculation, bench);
      break;
  }
  if (out) {
    out->mode = request.mode;
    out->notes.insert(out->notes.begin(), model->notes.begin(), model->notes.end());
  }
  return out;
}

}  // namespace infercast
