#include "search/support.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "search/candidates.h"
#include "search/run_task.h"
#include "search/task_resolution.h"
#include "search/workbench.h"
#include "serving/worker.h"

namespace infercast {
namespace {

// Tables may start at larger batches than one.
constexpr std::int64_t kBatches[] = {1, 8, 64};

// What was found of one role in one database mode.
struct RoleFinding {
  std::shared_ptr<const Worker> worker;  // one that answers and fits
  std::optional<Error> missing;          // else why none does
  Tier tier = Tier::kSilicon;            // the boldest estimate in the answer
};

// The reason that says most: a layout that lacks measurements or memory was at least buildable.
int Weight(const Error& error) {
  if (IsMissingData(error.kind)) return 3;
  if (error.kind == ErrorKind::kDoesNotFit) return 2;
  return 1;
}

Status Evaluate(const Worker& worker, WorkerRole role, const Workload& workload,
                std::int64_t batch) {
  const EvaluationOptions options;
  const auto fits = [&](const WorkerRow& row) -> Status {
    if (row.verdict.fits()) return {};
    return Fail(ErrorKind::kDoesNotFit, "no layout fits in GPU memory");
  };
  if (role == WorkerRole::kAggregated) {
    const std::int64_t ctx = ContextTokenGrid(workload.isl, 512, false).front();
    IC_ASSIGN(const AggregatedRow row, EvaluateAggregated(worker, workload, batch, ctx, options));
    return fits(row);
  }
  const StaticMode mode =
      role == WorkerRole::kPrefill ? StaticMode::kContext : StaticMode::kGeneration;
  IC_ASSIGN(const StaticRow row, EvaluateStatic(worker, workload, batch, mode, options));
  return fits(row);
}

Tier BoldestTier(const Worker& worker, WorkerRole role, const Workload& workload) {
  RuntimeShape shape;
  shape.batch_size = 1;
  shape.isl = static_cast<std::uint32_t>(workload.isl);
  shape.osl = static_cast<std::uint32_t>(workload.osl);
  shape.prefix = static_cast<std::uint32_t>(workload.prefix);
  const StaticMode mode = role == WorkerRole::kPrefill  ? StaticMode::kContext
                          : role == WorkerRole::kDecode ? StaticMode::kGeneration
                                                        : StaticMode::kBoth;
  const auto steps = worker.engine().ExplainStatic(shape, mode, kDecodeStride);
  if (!steps) return Tier::kSilicon;
  return std::max(steps->context.WorstTier(), steps->generation.WorstTier());
}

RoleFinding FindWorker(const ResolvedRole& role, const Workload& workload) {
  RoleFinding finding;
  for (const ParallelLayout& layout : role.layouts) {
    Result<std::shared_ptr<const Worker>> worker = role.workers->Get(layout);
    Status status;
    if (!worker) {
      status = std::unexpected(worker.error());
    } else {
      for (const std::int64_t batch : kBatches) {
        status = Evaluate(**worker, role.role, workload, batch);
        // Larger batches do not fit where small ones do not, and are not better measured where
        // something else is wrong.
        if (status || !IsMissingData(status.error().kind)) break;
      }
    }
    if (status) {
      finding.worker = *std::move(worker);
      finding.missing.reset();
      finding.tier = BoldestTier(*finding.worker, role.role, workload);
      return finding;
    }
    if (!finding.missing || Weight(status.error()) > Weight(*finding.missing)) {
      finding.missing = status.error();
    }
  }
  if (!finding.missing) {
    finding.missing = Error{ErrorKind::kInvalidArgument, "no parallel layout is possible"};
  }
  return finding;
}

Result<ResolvedTask> Resolve(const SupportQuestion& question, ServingMode mode, DatabaseMode data,
                             const SupportOptions& options, Workbench& bench) {
  Task task;
  task.mode = mode;
  task.workload = options.workload;
  task.total_gpus = question.total_gpus;
  task.database_mode = data;
  task.behaviour = options.behaviour;
  task.allow_unlisted_versions = options.allow_unlisted_versions;
  RoleChoice who;
  who.model = question.model;
  who.system = question.system;
  who.backend = question.backend;
  who.version = question.version;
  if (mode == ServingMode::kAggregated) {
    task.worker = who;
  } else {
    task.prefill = who;
    task.decode = who;
  }
  IC_ASSIGN(ResolvedTask resolved, ResolveTask(std::move(task), bench));
  IC_RETURN_IF_ERROR(ValidateTask(resolved));
  return resolved;
}

struct Attempt {
  std::string layout, version, architecture;
  Tier tier = Tier::kSilicon;
};

Result<Attempt> TryMode(const SupportQuestion& question, ServingMode mode, DatabaseMode data,
                        const SupportOptions& options, Workbench& bench, SupportAnswer& answer) {
  IC_ASSIGN(const ResolvedTask resolved, Resolve(question, mode, data, options, bench));
  // Estimates without any measurement have no version.
  const std::string& version = resolved.primary().database->store().identity().version;
  if (version != "estimate") answer.version = version;
  Attempt attempt;
  for (const ResolvedRole& role : resolved.roles) {
    RoleFinding finding = FindWorker(role, options.workload);
    if (finding.missing) {
      if (mode == ServingMode::kDisaggregated) {
        finding.missing->message =
            (role.role == WorkerRole::kPrefill ? "prefill workers: " : "decode workers: ") +
            finding.missing->message;
      }
      return std::unexpected(*std::move(finding.missing));
    }
    attempt.layout += (attempt.layout.empty() ? "" : " + ") + finding.worker->identity().parallel;
    attempt.tier = std::max(attempt.tier, finding.tier);
  }
  return attempt;
}

ModeSupport CheckMode(const SupportQuestion& question, ServingMode mode,
                      const SupportOptions& options, Workbench& bench, SupportAnswer& answer) {
  ModeSupport support;
  const Result<Attempt> measured =
      TryMode(question, mode, DatabaseMode::kSilicon, options, bench, answer);
  if (measured) {
    support.kind = SupportKind::kMeasured;
    support.layout = measured->layout;
    return support;
  }
  support.kind = SupportKind::kNo;
  support.missing = measured.error();
  // Estimates fill in measurements; they help neither against memory nor wrong settings. A number
  // format that was not measured counts as a setting.
  if (!options.estimates || measured.error().kind == ErrorKind::kDoesNotFit ||
      measured.error().kind == ErrorKind::kUnknownName ||
      measured.error().kind == ErrorKind::kUnsupportedModel) {
    return support;
  }
  const Result<Attempt> estimated =
      TryMode(question, mode, DatabaseMode::kHybrid, options, bench, answer);
  if (estimated) {
    support.kind = SupportKind::kEstimated;
    support.layout = estimated->layout;
    support.estimate = ToString(estimated->tier);
  }
  return support;
}

}  // namespace

std::vector<SupportAnswer> CheckSupport(std::span<const SupportQuestion> questions,
                                        const SupportOptions& options,
                                        const SystemsCatalog& systems,
                                        const CheckpointSearch& checkpoints) {
  std::vector<SupportAnswer> answers(questions.size());
  // Questions on one database share it, and what is built on it; a few models at a time, so that
  // the workers of thousands of questions are never all alive.
  using Group = std::tuple<std::string, Backend, std::string>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const SupportQuestion& q = questions[i];
    answers[i].question = q;
    groups[{q.system, q.backend, q.version.value_or("")}].push_back(i);
  }
  constexpr std::size_t kPerBench = 12;
  std::vector<std::vector<std::size_t>> portions;
  for (const auto& [group, members] : groups) {
    for (std::size_t from = 0; from < members.size(); from += kPerBench) {
      const std::size_t to = std::min(from + kPerBench, members.size());
      portions.emplace_back(members.begin() + static_cast<std::ptrdiff_t>(from),
                            members.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  const auto stopped = [&] { return options.stop != nullptr && options.stop->load(); };
  std::mutex reporting;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, portions.size(), [&](std::size_t p) {
    Workbench bench(systems, checkpoints);
    for (const std::size_t i : portions[p]) {
      if (stopped()) return;
      SupportAnswer& answer = answers[i];
      if (const auto model = bench.Model(questions[i].model)) {
        answer.architecture = (*model)->architecture;
      }
      answer.aggregated = CheckMode(questions[i], ServingMode::kAggregated, options, bench, answer);
      answer.disaggregated =
          CheckMode(questions[i], ServingMode::kDisaggregated, options, bench, answer);
      if (options.progress) {
        const std::scoped_lock lock(reporting);
        options.progress(++done, questions.size());
      }
    }
  });
  return answers;
}

}  // namespace infercast
