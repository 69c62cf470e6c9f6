// A task's search: targets from its settings, the search of its mode, errors that say what is
// missing.
#include "search/run_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "search/afd_search.h"
#include "search/aggregated_search.h"
#include "search/disaggregated_search.h"
#include "search/encoder_pool.h"
#include "search/misses.h"
#include "serving/pool_limits.h"

namespace infercast {

namespace {

// What a row misses of the task's own targets.
std::string MissesOf(const WorkerRow& row, const Task& task) {
  Misses misses;
  if (task.request_latency) {
    misses.Check("request latency", row.request_latency, *task.request_latency);
  }
  misses.Check("ttft", row.ttft, task.ttft);
  if (!task.request_latency && !task.pareto_sweep) misses.Check("tpot", row.tpot, task.tpot);
  return misses.Text();
}

Result<TaskTable> RunAggregated(const ResolvedTask& resolved) {
  const Task& task = resolved.task;
  IC_ASSIGN(const std::vector<LatencyTarget> targets, TargetsOf(task));
  const ResolvedRole& role = resolved.primary();
  AggregatedSearchResult found =
      SearchAggregated(role.layouts, role.workers->Source(), task.workload, targets,
                       AggregatedOptionsOf(resolved), task.behaviour);
  TaskTable table;
  table.tally = found.tally;
  table.workers = std::move(found.workers);
  table.notes = resolved.notes;
  for (const AggregatedRow& row : found.rows) table.rows.push_back({row, std::nullopt});
  for (const AggregatedRow& row : found.nearest_misses) {
    table.nearest_misses.push_back({row, std::nullopt});
  }
  for (const AggregatedRow& row : found.cut_ties) {
    table.cut_ties.push_back({row, std::nullopt});
  }
  if (!table.rows.empty()) return table;
  Error error = NothingFound(table.tally, "aggregated workers", task.behaviour);
  std::string nearest;
  for (const TaskRow& miss : table.nearest_misses) {
    const AggregatedRow& row = *miss.aggregated();
    nearest +=
        fmt::format("; {} with batch {}: {}", row.worker->parallel, row.bs, MissesOf(row, task));
  }
  if (error.kind == ErrorKind::kNoFeasibleConfig && !nearest.empty()) {
    error.message += "; nearest" + nearest.substr(1);
  }
  return std::unexpected(std::move(error));
}

Result<TaskTable> RunDisaggregated(const ResolvedTask& resolved) {
  const Task& task = resolved.task;
  IC_ASSIGN(const std::vector<LatencyTarget> targets, TargetsOf(task));
  const ResolvedRole& prefill = resolved.primary();
  const ResolvedRole& decode = resolved.decode();
  DisaggregatedSearchResult found = SearchDisaggregated(
      prefill.layouts, prefill.workers->Source(), decode.layouts, decode.workers->Source(),
      task.workload, targets, DisaggregatedOptionsOf(resolved), task.behaviour);
  if (found.error) return std::unexpected(*std::move(found.error));
  TaskTable table;
  table.tally = found.prefill_tally;
  table.tally.Merge(found.decode_tally);
  table.workers = std::move(found.workers);
  table.notes = resolved.notes;
  for (const DisaggregatedRow& row : found.rows) table.rows.push_back({row, std::nullopt});
  if (table.rows.empty() && task.behaviour == Behaviour::kNative) {
    return Fail(ErrorKind::kNoFeasibleConfig,
                fmt::format("pools of prefill and decode workers: no pair meets the targets; the "
                            "fastest prefill answers after {:.1f} ms (target {:g}), the fastest "
                            "decode takes {:.2f} ms per token (target {:g})",
                            found.fastest_ttft, task.ttft, found.fastest_tpot, task.tpot));
  }
  return table;
}

Status CheckFits(const ResolvedTask& task, const WorkerRow& row, const char* what) {
  if (row.verdict.fits()) return {};
  return Fail(ErrorKind::kDoesNotFit,
              fmt::format("{}{} with batch {} of {} does not fit on {}: {:.1f} GiB per GPU{}", what,
                          row.worker->parallel, row.bs, task.primary().model->name,
                          row.worker->system, row.memory.total,
                          row.verdict.oom ? "" : ", and its KV cache exceeds the budget"));
}

}  // namespace

Result<std::vector<LatencyTarget>> TargetsOf(const Task& task) {
  const bool native = task.behaviour == Behaviour::kNative;
  std::vector<LatencyTarget> targets;
  if (task.request_latency && *task.request_latency > 0) {
    if (task.workload.osl <= 1) {
      return Fail(ErrorKind::kInvalidArgument,
                  "a request latency target needs at least two output tokens");
    }
    targets = RequestLatencyTargets(*task.request_latency, task.ttft, task.workload.osl);
    // The first token's target is a limit of its own.
    if (native) {
      std::erase_if(targets, [&](const LatencyTarget& t) { return t.ttft > task.ttft; });
    }
    return targets;
  }
  if (!task.pareto_sweep) return std::vector<LatencyTarget>{{task.ttft, task.tpot}};
  std::vector<double> tpots = TpotSweep();
  // The user's own target may lie between or beyond those of the sweep.
  if (native && !std::ranges::binary_search(tpots, task.tpot)) {
    tpots.insert(std::ranges::lower_bound(tpots, task.tpot), task.tpot);
  }
  for (const double tpot : tpots) targets.push_back({task.ttft, tpot});
  return targets;
}

AggregatedSearchOptions AggregatedOptionsOf(const ResolvedTask& resolved) {
  const Task& task = resolved.task;
  AggregatedSearchOptions options;
  options.chunked_prefill = task.worker.chunked_prefill;
  options.speculation = resolved.speculation;
  options.memory_fraction = task.memory_fraction;
  options.max_seq_len = task.max_seq_len;
  return options;
}

DisaggregatedSearchOptions DisaggregatedOptionsOf(const ResolvedTask& resolved) {
  const Task& task = resolved.task;
  const DisaggregatedChoice& d = task.disagg;
  DisaggregatedSearchOptions options;
  options.prefill_max_batch = d.prefill_max_batch;
  options.decode_max_batch = d.decode_max_batch;
  options.prefill_latency_correction = d.prefill_latency_correction;
  options.decode_latency_correction = d.decode_latency_correction;
  options.factors = {.prefill_degradation = d.prefill_degradation,
                     .decode_degradation = d.decode_degradation,
                     .ttft_queueing = d.ttft_queueing};
  options.replica = resolved.replica;
  options.speculation = resolved.speculation;
  options.memory_fraction = task.memory_fraction;
  // A KV length that the user reserves holds for decode workers as well.
  if (task.behaviour == Behaviour::kNative) options.max_seq_len = task.max_seq_len;
  if (resolved.primary().request.backend == Backend::kSglang) {
    // Its KV transfer keeps the shards: equal tensor parallelism, unless experts are spread widely.
    const auto wide = [](const ResolvedRole& role) {
      std::set<std::int64_t> eps;
      for (const ParallelLayout& layout : role.layouts) {
        if (role.IsLargeEp(layout)) eps.insert(layout.moe_ep.value_or(1));
      }
      return eps;
    };
    options.compatible = [prefill = wide(resolved.primary()), decode = wide(resolved.decode())](
                             const ParallelLayout& p, const ParallelLayout& d) {
      const auto exempt = [](const ParallelLayout& l, const std::set<std::int64_t>& eps) {
        return l.moe_tp.value_or(1) == 1 && eps.contains(l.moe_ep.value_or(1));
      };
      return p.tp == d.tp || exempt(p, prefill) || exempt(d, decode);
    };
  }
  return options;
}

Result<TaskTable> RunTask(const ResolvedTask& task, Workbench& bench) {
  IC_RETURN_IF_ERROR(ValidateTask(task));
  if (task.task.mode == ServingMode::kAfd) return RunAfdTask(task, bench);
  if (task.task.epd.enabled) return RunEncoderPoolTask(task, bench);
  return task.task.mode == ServingMode::kDisaggregated ? RunDisaggregated(task)
                                                       : RunAggregated(task);
}

Result<TaskTable> RunTask(const Task& task, Workbench& bench) {
  IC_ASSIGN(const ResolvedTask resolved, ResolveTask(task, bench));
  return RunTask(resolved, bench);
}

Result<TaskPoint> EvaluateAggregatedPoint(const ResolvedTask& resolved,
                                          const AggregatedPoint& point, Workbench& bench) {
  const Task& task = resolved.task;
  if (task.mode != ServingMode::kAggregated) {
    return Fail(ErrorKind::kInvalidArgument, "an aggregated point needs an aggregated task");
  }
  IC_ASSIGN(const std::shared_ptr<const Worker> worker,
            resolved.primary().workers->Get(point.layout));
  EvaluationOptions options;
  options.memory_fraction = task.memory_fraction;
  options.max_seq_len = task.max_seq_len;
  if (resolved.speculation.accepted > 0) options.decode_progress = resolved.speculation.progress();
  // The reference's default does not count image tokens.
  const std::int64_t isl =
      task.workload.isl +
      (task.behaviour == Behaviour::kNative ? worker->VisualTokensOf(task.workload) : 0);
  IC_ASSIGN(AggregatedRow row, EvaluateAggregated(*worker, task.workload, point.batch,
                                                  point.ctx_tokens.value_or(isl), options));
  IC_RETURN_IF_ERROR(CheckFits(resolved, row, ""));
  TaskPoint out;
  out.row.figures = row;
  out.workers.push_back(worker);
  if (task.epd.enabled) {
    IC_RETURN_IF_ERROR(AddEncoderPool(resolved, point.encoder, bench, out.row));
  }
  return out;
}

Result<TaskPoint> EvaluateDisaggregatedPoint(const ResolvedTask& resolved,
                                             const DisaggregatedPoint& point, Workbench& bench) {
  const Task& task = resolved.task;
  if (task.mode != ServingMode::kDisaggregated) {
    return Fail(ErrorKind::kInvalidArgument, "a point of pools needs a disaggregated task");
  }
  IC_RETURN_IF_ERROR(CheckWorkers("the number of prefill workers", point.prefill.workers));
  IC_RETURN_IF_ERROR(CheckWorkers("the number of decode workers", point.decode.workers));
  const bool reference = task.behaviour == Behaviour::kReference;
  const DisaggregatedSearchOptions search = DisaggregatedOptionsOf(resolved);
  TaskPoint out;
  const auto evaluate = [&](const ResolvedRole& role, const PoolPoint& pool, StaticMode mode,
                            double correction) -> Result<StaticRow> {
    IC_ASSIGN(std::shared_ptr<const Worker> worker, role.workers->Get(pool.layout));
    EvaluationOptions options;
    options.latency_correction = correction;
    options.memory_fraction = task.memory_fraction;
    options.max_seq_len = search.max_seq_len;
    IC_ASSIGN(StaticRow row, EvaluateStatic(*worker, task.workload, pool.batch, mode, options));
    IC_RETURN_IF_ERROR(
        CheckFits(resolved, row, mode == StaticMode::kContext ? "prefill " : "decode "));
    if (reference) RoundColumns(row);
    out.workers.push_back(std::move(worker));
    return row;
  };
  IC_ASSIGN(const StaticRow prefill,
            evaluate(resolved.primary(), point.prefill, StaticMode::kContext,
                     task.disagg.prefill_latency_correction));
  IC_ASSIGN(StaticRow decode, evaluate(resolved.decode(), point.decode, StaticMode::kGeneration,
                                       task.disagg.decode_latency_correction));
  ProjectSpeculation(decode, resolved.speculation.accepted, reference);
  DisaggregatedRow row = ComposeDisaggregated(prefill, decode, point.prefill.workers,
                                              point.decode.workers, search.factors);
  out.row.figures = row;
  if (task.epd.enabled) {
    IC_RETURN_IF_ERROR(AddEncoderPool(resolved, point.encoder, bench, out.row));
  }
  return out;
}

}  // namespace infercast
