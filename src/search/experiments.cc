// Running, picking, merging, choosing.
#include "search/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/pareto.h"
#include "search/reference_sort.h"
#include "search/run_task.h"

namespace infercast {

namespace {

bool UsesRequestLatency(const Task& task) {
  return task.request_latency && *task.request_latency > 0;
}

RowPicker PickerOf(const Task& task, const ExperimentOptions& options) {
  return [&](std::span<const PickRow> rows, const Constraint& constraint,
             std::size_t top_n) -> Result<PickResult> {
    if (options.load) {
      return PickForLoad(rows, *options.load, constraint, top_n, task.behaviour);
    }
    return PickForCluster(rows, task.gpu_budget().value_or(0), constraint, top_n, task.behaviour);
  };
}

// The formula's pick, and natively, if asked for, that of benchmark runs of its best rows.
Result<PickResult> PickFrom(const ResolvedTask& resolved, TaskTable& table,
                            const ExperimentOptions& options) {
  const Task& task = resolved.task;
  std::vector<PickRow> figures;
  figures.reserve(table.rows.size());
  for (const TaskRow& row : table.rows) figures.push_back(PickRowOf(row));
  const Constraint constraint{
      .tpot = task.tpot, .request_latency = task.request_latency, .strict = options.strict};
  const RowPicker picker = PickerOf(task, options);
  IC_ASSIGN(PickResult pick, picker(figures, constraint, options.top_n));
  if (options.score == ScoredBy::kClosedLoop && task.behaviour == Behaviour::kNative) {
    IC_RETURN_IF_ERROR(Rescore(resolved, constraint, options.top_n, picker, figures, table, pick));
  }
  return pick;
}

ExperimentOutcome Run(const Experiment& experiment, const ExperimentOptions& options,
                      Workbench& bench) {
  ExperimentOutcome outcome;
  outcome.name = experiment.name;
  outcome.task = experiment.task;
  Result<ResolvedTask> resolved = ResolveTask(experiment.task, bench);
  if (!resolved) {
    outcome.error = std::move(resolved.error());
    return outcome;
  }
  outcome.task = resolved->task;
  if (SearchWatch* watch = bench.watch(); watch != nullptr) {
    for (const ResolvedRole& role : resolved->roles) watch->Expect(role.layouts.size());
  }
  Result<TaskTable> table = RunTask(*resolved, bench);
  if (!table) {
    outcome.error = std::move(table.error());
    return outcome;
  }
  outcome.table = *std::move(table);
  if (outcome.table.rows.empty()) return outcome;
  Result<PickResult> pick = PickFrom(*resolved, outcome.table, options);
  if (!pick) {
    outcome.error = std::move(pick.error());
    return outcome;
  }
  outcome.pick = *std::move(pick);
  if (outcome.pick.best.empty() && outcome.task.behaviour == Behaviour::kNative) {
    outcome.error =
        Error{ErrorKind::kNoFeasibleConfig,
              options.strict
                  ? fmt::format("none of {} rows meets the {} target", outcome.table.rows.size(),
                                UsesRequestLatency(outcome.task) ? "request latency" : "tpot")
                  : fmt::format("none of {} rows can be deployed", outcome.table.rows.size())};
  }
  return outcome;
}

bool Succeeded(const ExperimentOutcome& outcome) {
  return !outcome.error && !outcome.table.rows.empty();
}

PickedRow Picked(const ExperimentOutcome& outcome, const Pick& pick) {
  return {outcome.table.rows[pick.row], pick, std::nullopt};
}

ExperimentResult ResultOf(const ExperimentOutcome& outcome) {
  ExperimentResult result;
  result.name = outcome.name;
  for (const Pick& pick : outcome.pick.best) result.best.push_back(Picked(outcome, pick));
  for (const Pick& pick : outcome.pick.front) result.front.push_back(Picked(outcome, pick));
  result.best_value = outcome.pick.best_value;
  result.exceeded = outcome.pick.exceeded;
  return result;
}

std::vector<PickedRow> Permuted(std::vector<PickedRow>& rows,
                                std::span<const std::uint32_t> order) {
  std::vector<PickedRow> out;
  out.reserve(order.size());
  for (const std::uint32_t i : order) out.push_back(rows[i]);
  return out;
}

// Order of merged rows: fewest GPUs for a load, else most throughput per cluster GPU.
bool BetterMerged(const PickedRow& a, const PickedRow& b, bool load) {
  if (load && a.pick.total_gpus_needed != b.pick.total_gpus_needed) {
    return a.pick.total_gpus_needed < b.pick.total_gpus_needed;
  }
  if (a.pick.tokens_s_gpu_cluster != b.pick.tokens_s_gpu_cluster) {
    return a.pick.tokens_s_gpu_cluster > b.pick.tokens_s_gpu_cluster;
  }
  return PickRowOf(a.row).tpot < PickRowOf(b.row).tpot;
}

void SortMerged(std::vector<PickedRow>& rows, bool load, Behaviour behaviour) {
  if (behaviour == Behaviour::kNative) {
    std::stable_sort(rows.begin(), rows.end(), [&](const PickedRow& a, const PickedRow& b) {
      return BetterMerged(a, b, load);
    });
    return;
  }
  // The reference sorts by throughput in every case.
  rows = SortedAsReference(std::span<const PickedRow>(rows),
                           [](const PickedRow& row) { return row.pick.tokens_s_gpu_cluster; });
}

void KeepFront(std::vector<PickedRow>& rows, bool request_latency) {
  std::vector<FrontPoint> points;
  for (const PickedRow& row : rows) {
    const PickRow figures = PickRowOf(row.row);
    points.push_back({request_latency ? figures.request_latency : figures.tokens_s_user,
                      row.pick.tokens_s_gpu_cluster});
  }
  rows = Permuted(rows, ParetoFront(points, !request_latency, true));
}

// One result for each serving mode.
std::vector<ExperimentResult> Merge(std::span<const ExperimentOutcome> outcomes,
                                    const ExperimentOptions& options) {
  std::vector<ExperimentResult> merged;
  for (const ServingMode mode :
       {ServingMode::kAggregated, ServingMode::kDisaggregated, ServingMode::kAfd}) {
    ExperimentResult result;
    result.name = ToString(mode);
    bool any = false;
    bool all_exceeded = true;
    const Task* first = nullptr;
    for (const ExperimentOutcome& outcome : outcomes) {
      if (outcome.task.mode != mode) continue;
      any = true;
      if (!Succeeded(outcome)) continue;
      if (first == nullptr) first = &outcome.task;
      ExperimentResult part = ResultOf(outcome);
      // Natively a row that misses the target never stands before one that meets it.
      const bool native = outcome.task.behaviour == Behaviour::kNative;
      if (native && part.exceeded && !all_exceeded) part.best.clear();
      if (native && !part.exceeded && all_exceeded) result.best.clear();
      all_exceeded = all_exceeded && part.exceeded;
      for (auto* rows : {&part.best, &part.front}) {
        auto& into = rows == &part.best ? result.best : result.front;
        for (PickedRow& row : *rows) {
          row.backend = outcome.task.primary().backend;
          into.push_back(row);
        }
      }
    }
    if (!any) continue;
    if (first != nullptr) {
      result.exceeded = all_exceeded;
      SortMerged(result.best, options.load.has_value(), first->behaviour);
      if (result.best.size() > options.top_n) result.best.resize(options.top_n);
      if (!result.best.empty()) {
        const Pick& pick = result.best.front().pick;
        const bool by_gpus = options.load && first->behaviour == Behaviour::kNative;
        result.best_value =
            by_gpus ? 1.0 / static_cast<double>(pick.total_gpus_needed) : pick.tokens_s_gpu_cluster;
      }
      KeepFront(result.front, UsesRequestLatency(*first));
    }
    merged.push_back(std::move(result));
  }
  return merged;
}

// Of a result without a row that meets the target: its first row's figure that misses.
double Nearness(const ExperimentResult& result, bool request_latency) {
  const PickRow row = PickRowOf(result.best.front().row);
  return request_latency ? row.request_latency : row.tpot;
}

// Largest value; natively a result that meets its target comes before one that does not, and
// among equal values the faster one per token.
std::string Choose(std::span<const ExperimentResult> results, Behaviour behaviour,
                   bool request_latency) {
  const ExperimentResult* chosen = nullptr;
  const bool native = behaviour == Behaviour::kNative;
  for (const ExperimentResult& result : results) {
    if (chosen == nullptr) {
      chosen = &result;
      continue;
    }
    if (native && result.best.empty() != chosen->best.empty()) {
      if (chosen->best.empty()) chosen = &result;
      continue;
    }
    if (native && result.exceeded != chosen->exceeded) {
      if (chosen->exceeded) chosen = &result;
      continue;
    }
    if (native && result.exceeded && !result.best.empty()) {
      // Neither meets its target: the one that is nearer to it.
      if (Nearness(result, request_latency) < Nearness(*chosen, request_latency)) chosen = &result;
      continue;
    }
    if (result.best_value > chosen->best_value) chosen = &result;
    if (native && result.best_value == chosen->best_value && !result.best.empty() &&
        PickRowOf(result.best[0].row).tpot < PickRowOf(chosen->best[0].row).tpot) {
      chosen = &result;
    }
  }
  return chosen == nullptr ? std::string() : chosen->name;
}

Error NothingRan(std::span<const ExperimentOutcome> outcomes) {
  Error error{ErrorKind::kNoFeasibleConfig, "no configuration meets the request"};
  bool memory = false;
  std::optional<ErrorKind> common;
  bool same = true;
  for (const ExperimentOutcome& outcome : outcomes) {
    const ErrorKind kind = outcome.error ? outcome.error->kind : ErrorKind::kNoFeasibleConfig;
    same = same && (!common || *common == kind);
    memory = memory || kind == ErrorKind::kDoesNotFit;
    common = kind;
    error.message +=
        fmt::format("\n  {}: {}", outcome.name,
                    outcome.error ? outcome.error->message : "no pair meets the targets");
  }
  // One reason for all is the reason; lack of memory is worth more GPUs.
  if (same && common) error.kind = *common;
  if (!same && memory) error.kind = ErrorKind::kDoesNotFit;
  return error;
}

}  // namespace

const ExperimentResult* ExperimentsResult::Find(std::string_view name) const {
  const auto found = std::ranges::find(results, name, &ExperimentResult::name);
  return found == results.end() ? nullptr : &*found;
}

Status CheckVersions(std::span<const Experiment> experiments, Workbench& bench) {
  for (const auto& [name, task] : experiments) {
    if (task.database_mode != DatabaseMode::kSilicon &&
        task.database_mode != DatabaseMode::kHybrid) {
      continue;
    }
    const bool pools = task.mode == ServingMode::kDisaggregated;
    for (const RoleChoice* role : {&task.primary(), pools ? &task.decode : nullptr}) {
      if (role == nullptr || !role->version) continue;
      const Result<std::string> version = bench.systems().ResolveVersion(
          role->system, role->backend, *role->version, task.allow_unlisted_versions);
      if (!version) {
        return Fail(version.error().kind,
                    fmt::format("experiment {}: {}", name, version.error().message));
      }
    }
  }
  return {};
}

Result<ExperimentsResult> RunExperiments(std::span<const Experiment> experiments,
                                         const ExperimentOptions& options, Workbench& bench) {
  ExperimentsResult out;
  out.options = options;
  for (const Experiment& experiment : experiments) {
    out.outcomes.push_back(Run(experiment, options, bench));
  }
  if (std::ranges::none_of(out.outcomes, Succeeded)) {
    return std::unexpected(NothingRan(out.outcomes));
  }
  if (options.merge && experiments.size() > 2) {
    out.results = Merge(out.outcomes, options);
  } else {
    for (const ExperimentOutcome& outcome : out.outcomes) {
      if (Succeeded(outcome)) out.results.push_back(ResultOf(outcome));
    }
  }
  out.chosen = Choose(out.results, experiments.front().task.behaviour,
                      UsesRequestLatency(experiments.front().task));
  return out;
}

}  // namespace infercast
