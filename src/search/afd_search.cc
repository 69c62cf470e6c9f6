#include "search/afd_search.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "search/afd_candidate_search.h"
#include "search/default_lists.h"
#include "search/order.h"
#include "search/run_task.h"

namespace infercast {

namespace {

constexpr std::size_t kNearestMisses = 3;

// The sides' workers, each built once: experts always as the fused block.
class SideWorkers {
 public:
  explicit SideWorkers(const Deployment& deployment) : deployment_(&deployment) {}

  Result<std::shared_ptr<const AfdDeployment>> Make(const AfdLayout& layout) {
    IC_ASSIGN(std::shared_ptr<const Worker> attention, Get(layout.AttentionParallel()));
    IC_ASSIGN(std::shared_ptr<const Worker> ffn, Get(layout.FfnParallel()));
    return AfdDeployment::Create(std::move(attention), std::move(ffn), layout);
  }

  std::vector<std::shared_ptr<const Worker>> All() const {
    std::vector<std::shared_ptr<const Worker>> out;
    for (const auto& [key, entry] : entries_) {
      if (entry.worker) out.push_back(*entry.worker);
    }
    return out;
  }

 private:
  struct Entry {
    std::once_flag once;
    Result<std::shared_ptr<const Worker>> worker = std::shared_ptr<const Worker>();
  };

  Result<std::shared_ptr<const Worker>> Get(const ParallelLayout& layout) {
    Entry* entry = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      entry = &entries_[{layout.tp, layout.moe_tp.value_or(1), layout.moe_ep.value_or(1)}];
    }
    std::call_once(entry->once, [&] { entry->worker = deployment_->MakeWorker(layout); });
    return entry->worker;
  }

  const Deployment* deployment_;
  std::mutex mutex_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Entry> entries_;
};

AfdSpace SpaceOf(const ResolvedTask& task, std::int64_t budget) {
  const ResolvedRole& role = task.primary();
  AfdSpace space;
  space.gpus_per_node = role.database->system().num_gpus_per_node;
  space.gpu_budget = budget;
  space.is_moe = role.model->IsMoe();
  return space;
}

// What one candidate contributes: rows by target.
struct Part {
  std::vector<std::vector<AfdRow>> rows;
  AfdRejections rejections;
  std::optional<AfdMiss> nearest_miss;
  std::uint64_t evaluated = 0;
  std::optional<Error> failure;
};

// The candidates of one split, in order; they share its workers, and what one finds out about
// memory.
void SearchSplit(std::span<const AfdCandidate> candidates, std::span<Part> parts,
                 SideWorkers& workers, std::span<const LatencyTarget> targets,
                 const AfdSearchSetup& setup) {
  for (Part& part : parts) part.rows.resize(targets.size());
  Result<std::shared_ptr<const AfdDeployment>> deployment = workers.Make(candidates[0].layout);
  if (!deployment) {
    for (Part& part : parts) part.failure = deployment.error();
    return;
  }
  std::vector<AfdCandidateSearch> searches;
  for (const AfdCandidate& candidate : candidates) {
    searches.emplace_back(*deployment, candidate, setup);
  }
  std::optional<std::int64_t> exhausted_at;  // micro-batches with which nothing fits
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (exhausted_at && candidates[i].micro_batches > *exhausted_at) {
        ++parts[i].rejections.oom;
        continue;
      }
      Result<std::vector<AfdRow>> rows = searches[i].RowsFor(targets[t]);
      if (!rows) {
        if (!parts[i].failure) parts[i].failure = std::move(rows.error());
        continue;
      }
      parts[i].rows[t] = *std::move(rows);
      if (searches[i].exhausted()) {
        exhausted_at = std::min(exhausted_at.value_or(candidates[i].micro_batches),
                                candidates[i].micro_batches);
      }
    }
  }
  for (std::size_t i = 0; i < searches.size(); ++i) {
    parts[i].rejections.Add(searches[i].rejections());
    parts[i].nearest_miss = searches[i].nearest_miss();
    parts[i].evaluated = searches[i].evaluated();
  }
}

// Prefill workers of one split deployment: the layouts of a disaggregated prefill pool.
Result<std::vector<ParallelLayout>> PrefillLayouts(const ResolvedTask& task) {
  const ResolvedRole& role = task.primary();
  CandidateLists lists = task.task.prefill.lists;
  ListRequest request;
  request.model = role.model.get();
  request.system = &role.database->system();
  request.backend = role.request.backend;
  request.role = WorkerRole::kPrefill;
  request.megamoe = task.task.moe_backend == "megamoe";
  request.deepep = task.task.moe_backend == "deepep_moe";
  if (task.task.worker.enable_wideep && role.experts.coverage) {
    request.covered_eps = CoveredAcrossNodes(*role.experts.coverage, WorkerRole::kPrefill,
                                             role.database->system().num_gpus_per_node);
  }
  FillLists(request, lists);
  return EnumerateLayouts(
      lists,
      {.backend = request.backend, .is_moe = role.model->IsMoe(), .megamoe = request.megamoe});
}

// "; nearest: SPLIT with batch 8 ...; SPLIT ..." of the few splits that come nearest to the
// targets.
std::string Nearest(std::span<const AfdCandidate> candidates, std::span<const Part> parts) {
  std::map<std::string, AfdMiss> of_splits;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].nearest_miss) continue;
    const auto [at, fresh] = of_splits.emplace(candidates[i].layout.Text(), *parts[i].nearest_miss);
    if (!fresh && parts[i].nearest_miss->distance < at->second.distance) {
      at->second = *parts[i].nearest_miss;
    }
  }
  std::vector<std::pair<std::string, AfdMiss>> nearest(of_splits.begin(), of_splits.end());
  std::ranges::stable_sort(nearest, {}, [](const auto& split) { return split.second.distance; });
  if (nearest.size() > kNearestMisses) nearest.resize(kNearestMisses);
  std::string text;
  for (const auto& [split, miss] : nearest) {
    text += fmt::format("{}{} with {}", text.empty() ? "; nearest: " : "; ", split, miss.text);
  }
  return text;
}

Error NothingLeft(std::span<const AfdCandidate> candidates, std::span<const Part> parts,
                  const AfdRejections& rejections) {
  std::uint64_t evaluated = 0;
  std::uint64_t failed = 0;
  const Error* failure = nullptr;
  for (const Part& part : parts) {
    evaluated += part.evaluated;
    if (!part.failure) continue;
    ++failed;
    if (failure == nullptr ||
        (IsMissingData(part.failure->kind) && !IsMissingData(failure->kind))) {
      failure = &*part.failure;
    }
  }
  if (failure != nullptr && failed == parts.size()) {
    return {failure->kind, fmt::format("AFD: none of {} splits could be evaluated; {}",
                                       parts.size(), failure->message)};
  }
  std::string reasons;
  const auto add = [&](const char* what, std::uint64_t count) {
    if (count > 0) reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", what, count);
  };
  add("out of memory", rejections.oom);
  add("fixed batch does not spread", rejections.fixed_batch);
  add("time per token", rejections.tpot);
  add("first token", rejections.ttft);
  add("request latency", rejections.request_latency);
  add("no prefill workers", rejections.prefill_combine);
  add("GPU budget", rejections.gpu_budget);
  add("small batches out of memory", rejections.low_batch_oom);
  add("not evaluated", failed);
  return {
      ErrorKind::kNoFeasibleConfig,
      fmt::format("AFD: {} points of {} splits were evaluated and none meets the targets ({}){}",
                  evaluated, parts.size(), reasons, Nearest(candidates, parts))};
}

Result<TaskTable> RunPinned(const ResolvedTask& task, const AfdSpace& space,
                            const AfdOptions& options, SideWorkers& workers) {
  IC_ASSIGN(const PinnedAfd pinned, PinnedTopology(space, task.task.afd));
  IC_ASSIGN(const std::shared_ptr<const AfdDeployment> deployment, workers.Make(pinned.layout));
  IC_ASSIGN(AfdRow row,
            deployment->Evaluate(task.task.workload, pinned.schedule, AfdPhase::kBoth, options));
  if (task.task.behaviour == Behaviour::kReference) {
    row.combined_with_static = true;  // its label stays, though both phases ran divided
  } else {
    ProjectSpeculation(row, task.speculation.accepted, false);
  }
  if (task.task.behaviour == Behaviour::kNative && !row.fits()) {
    return Fail(ErrorKind::kDoesNotFit,
                fmt::format("{} with {} requests per attention worker does not fit in memory: "
                            "{:.1f} and {:.1f} GiB are needed per attention and FFN GPU",
                            pinned.layout.Text(), pinned.schedule.batch,
                            row.attention_memory.usage.total, row.ffn_memory.usage.total));
  }
  TaskTable table;
  table.rows.push_back({row, std::nullopt});
  table.workers = workers.All();
  table.tally.evaluated = 1;
  return table;
}

}  // namespace

Result<TaskTable> RunAfdTask(const ResolvedTask& task, Workbench&) {
  const ResolvedRole& role = task.primary();
  const AfdChoice& choice = task.task.afd;
  const std::optional<std::int64_t> budget = task.task.gpu_budget();
  if (!budget) {
    return Fail(ErrorKind::kInvalidArgument, "an AFD search needs a number of GPUs (total_gpus)");
  }
  AfdSpace space = SpaceOf(task, *budget);
  SideWorkers workers(role.workers->deployment());
  if (space.is_moe) {
    IC_ASSIGN(const ModelPlan plan,
              role.workers->deployment().Plan(
                  AfdLayout{.gpus_per_node = space.gpus_per_node}.AttentionParallel()));
    space.num_experts = plan.facts.num_experts;
  }
  const AfdOptions options{task.task.memory_fraction, task.task.max_seq_len};
  IC_ASSIGN(const bool pinned, IsPinned(choice));
  if (pinned) return RunPinned(task, space, options, workers);

  IC_ASSIGN(const std::vector<AfdCandidate> candidates, EnumerateAfdCandidates(space, choice));
  const Behaviour behaviour = task.task.behaviour;
  AfdPrefillOptions prefill;
  if (choice.combined_with_pd) {
    IC_ASSIGN(const std::vector<ParallelLayout> layouts, PrefillLayouts(task));
    IC_ASSIGN(prefill, EvaluateAfdPrefill(layouts, role.workers->Source(), task.task.workload,
                                          *budget, choice, behaviour));
  }
  AfdSearchSetup setup;
  setup.workload = task.task.workload;
  setup.options = options;
  setup.choice = choice;
  setup.gpu_budget = *budget;
  if (task.task.request_latency && *task.task.request_latency > 0) {
    setup.request_latency = task.task.request_latency;
  }
  setup.speculation = task.speculation;
  setup.prefill = prefill.rows;
  setup.behaviour = behaviour;

  IC_ASSIGN(const std::vector<LatencyTarget> targets, TargetsOf(task.task));
  std::vector<Part> parts(candidates.size());
  std::vector<std::pair<std::size_t, std::size_t>> splits;  // first candidate, count
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0 && candidates[i].layout == candidates[i - 1].layout) {
      ++splits.back().second;
    } else {
      splits.emplace_back(i, 1);
    }
  }
  tbb::parallel_for(std::size_t{0}, splits.size(), [&](std::size_t s) {
    const auto [first, count] = splits[s];
    SearchSplit(std::span(candidates).subspan(first, count), std::span(parts).subspan(first, count),
                workers, targets, setup);
  });

  TaskTable table;
  AfdRejections rejections;
  std::vector<AfdRow> rows;
  std::set<std::tuple<std::size_t, std::int64_t, double, double, std::int64_t>> seen;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (AfdRow& row : parts[i].rows[t]) {
        // A batch that serves several targets is one row.
        if (seen.emplace(i, row.schedule.batch, row.ttft, row.seq_s, row.num_total_gpus).second) {
          rows.push_back(row);
        }
      }
    }
  }
  for (const Part& part : parts) {
    rejections.Add(part.rejections);
    table.tally.evaluated += part.evaluated;
    if (part.failure) {
      ++table.tally.failed_layouts;
      if (!table.tally.failure || !IsMissingData(table.tally.failure->kind)) {
        table.tally.failure = part.failure;
      }
    }
  }
  table.tally.oom = rejections.oom + rejections.low_batch_oom;
  if (rows.empty()) return std::unexpected(NothingLeft(candidates, parts, rejections));
  SortByValue(rows, behaviour);
  for (const AfdRow& row : rows) table.rows.push_back({row, std::nullopt});
  table.workers = workers.All();
  table.workers.insert(table.workers.end(), prefill.workers.begin(), prefill.workers.end());
  if (table.tally.failed_layouts > 0) {
    table.notes.push_back(fmt::format("AFD: {} of {} splits could not be evaluated: {}",
                                      table.tally.failed_layouts, parts.size(),
                                      table.tally.failure->message));
  }
  return table;
}

}  // namespace infercast
