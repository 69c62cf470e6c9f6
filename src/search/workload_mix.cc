#include "search/workload_mix.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>

#include "base/files.h"
#include "base/near_names.h"
#include "search/experiments.h"
#include "search/ladder.h"
#include "search/row_runner.h"
#include "search/task_resolution.h"
#include "serving/benchmark_load.h"

namespace infercast {
namespace {

// How many deployments of each kind's search are tried under the others: its front and its best.
constexpr std::size_t kBestOfEach = 60;
// Layouts that are run at most while too few of them meet the targets, unless more are shown.
constexpr std::size_t kMostLayouts = 64;
// Requests of a run that may be made freely; of longer ones only as many as are needed.
constexpr double kCheapRun = 10000;

Status CheckKind(const WorkloadKind& kind) {
  const auto bad = [&](const char* what) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("workload {}: {}", kind.name, what));
  };
  if (kind.workload.isl < 1) return bad("isl must be at least 1");
  if (kind.workload.osl < 1) return bad("osl must be at least 1");
  if (kind.workload.prefix < 0 || kind.workload.prefix >= kind.workload.isl) {
    return bad("the cached prefix must be shorter than isl");
  }
  if (!std::isfinite(kind.share) || kind.share <= 0) return bad("share must be positive");
  for (const std::optional<double>& target : {kind.ttft, kind.tpot}) {
    if (target && (!std::isfinite(*target) || *target <= 0)) return bad("targets must be positive");
  }
  return {};
}

const WorkloadKind* FindPreset(std::string_view name) {
  const auto found = std::ranges::find(WorkloadPresets(), name, &WorkloadKind::name);
  return found == WorkloadPresets().end() ? nullptr : &*found;
}

std::unexpected<Error> UnknownPreset(const std::string& name) {
  std::vector<std::string> names;
  for (const WorkloadKind& preset : WorkloadPresets()) names.push_back(preset.name);
  return Fail(ErrorKind::kUnknownName,
              fmt::format("unknown workload '{}'{}; known: {}; or describe it in a file "
                          "(--workload-file)",
                          name, DidYouMean(name, names), JoinNames(names)));
}

double SeqPerSecond(const TaskRow& row) { return PickRowOf(row).seq_s; }

// What makes two rows the same deployment, whatever it serves.
std::string DeploymentKey(const TaskRow& row) {
  if (const AggregatedRow* agg = row.aggregated()) {
    return fmt::format("{} {}", agg->worker->parallel, agg->bs);
  }
  const DisaggregatedRow* pools = row.disaggregated();
  return fmt::format("{}x{} {} {}x{} {}", pools->prefill_workers, pools->prefill.worker->parallel,
                     pools->prefill.bs, pools->decode_workers, pools->decode.worker->parallel,
                     pools->decode.bs);
}
std::string LayoutKey(const TaskRow& row) {
  if (const AggregatedRow* agg = row.aggregated()) return agg->worker->parallel;
  const DisaggregatedRow* pools = row.disaggregated();
  return pools->prefill.worker->parallel + " " + pools->decode.worker->parallel;
}

// The deployment of `row`, which another kind's search found, under `task`.
Result<TaskPoint> Transfer(const TaskRow& row, const ResolvedTask& task, Workbench& bench) {
  if (const AggregatedRow* agg = row.aggregated()) {
    AggregatedPoint point;
    point.layout = agg->worker->layout;
    point.batch = agg->bs;
    return EvaluateAggregatedPoint(task, point, bench);
  }
  const DisaggregatedRow& pools = *row.disaggregated();
  DisaggregatedPoint point;
  point.prefill = {pools.prefill.worker->layout, pools.prefill.bs, pools.prefill_workers};
  point.decode = {pools.decode.worker->layout, pools.decode.bs, pools.decode_workers};
  IC_ASSIGN(TaskPoint made, EvaluateDisaggregatedPoint(task, point, bench));
  // A search counts the queue in front of the prefill workers; a single point does not.
  auto& figures = std::get<DisaggregatedRow>(made.row.figures);
  const double queue = figures.ttft * (task.task.disagg.ttft_queueing - 1);
  figures.ttft += queue;
  figures.request_latency += queue;
  return made;
}

// `slack`: factor on the target of the time per token.
bool Meets(const TaskRow& row, const Task& task, double slack = 1) {
  const PickRow figures = PickRowOf(row);
  return figures.ttft <= task.ttft && figures.tpot <= task.tpot * slack && figures.seq_s > 0;
}

// One experiment (a mode under a backend) of every kind.
struct MixExperiment {
  std::vector<ResolvedTask> tasks;                 // of each kind
  std::vector<const ExperimentOutcome*> outcomes;  // likewise
};

// The rows of one deployment that the kinds' searches have; null where one has none.
using KnownRows = std::vector<const TaskRow*>;
using Candidates = std::map<std::string, KnownRows>;  // by deployment

// Of several rows of one deployment, which differ in the prefill tokens of a step, the first that
// meets the targets stays: rows come best first.
void Add(const TaskRow& row, std::size_t kind, const MixExperiment& experiment,
         Candidates& candidates) {
  if (!row.aggregated() && !row.disaggregated()) return;
  KnownRows& known = candidates[DeploymentKey(row)];
  known.resize(experiment.outcomes.size());
  const Task& task = experiment.tasks[kind].task;
  if (known[kind] == nullptr || (!Meets(*known[kind], task) && Meets(row, task))) {
    known[kind] = &row;
  }
}

// The best of each kind's search and its front.
Candidates BestOf(const MixExperiment& experiment) {
  Candidates candidates;
  for (std::size_t k = 0; k < experiment.outcomes.size(); ++k) {
    const ExperimentOutcome& outcome = *experiment.outcomes[k];
    std::set<std::uint32_t> chosen;
    for (const Pick& pick : outcome.pick.best) chosen.insert(pick.row);
    for (const Pick& pick : outcome.pick.front) chosen.insert(pick.row);
    for (std::uint32_t i = 0; i < outcome.table.rows.size() && i < kBestOfEach; ++i) {
      chosen.insert(i);
    }
    for (const std::uint32_t i : chosen) {
      Add(outcome.table.rows[i], k, experiment, candidates);
    }
  }
  return candidates;
}

// Every deployment of one layout that a search found.
Candidates AllOf(const MixExperiment& experiment, const std::string& layout) {
  Candidates candidates;
  for (std::size_t k = 0; k < experiment.outcomes.size(); ++k) {
    for (const TaskRow& row : experiment.outcomes[k]->table.rows) {
      if ((row.aggregated() || row.disaggregated()) && LayoutKey(row) == layout) {
        Add(row, k, experiment, candidates);
      }
    }
  }
  return candidates;
}

// Rates of the mix from those of its rows.
void SetRates(const std::vector<WorkloadKind>& kinds, std::int64_t total_gpus,
              MixedDeployment& mixed) {
  double time_per_request = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    time_per_request += kinds[k].share / SeqPerSecond(mixed.rows[k]);
  }
  const auto gpus = PickRowOf(mixed.rows.front()).num_total_gpus;
  mixed.seq_s = 1 / time_per_request;
  mixed.seq_s_gpu = mixed.seq_s / static_cast<double>(gpus);
  mixed.replicas = total_gpus / gpus;
  mixed.seq_s_gpu_cluster = mixed.seq_s_gpu * static_cast<double>(mixed.replicas * gpus) /
                            static_cast<double>(total_gpus);
}

// A deployment under every kind by the formula, or the kind whose targets it misses.
Result<MixedDeployment> Mix(const KnownRows& known, const MixExperiment& experiment, double slack,
                            const MixResult& result, std::int64_t total_gpus, Workbench& bench,
                            std::size_t& misses) {
  const TaskRow* some = *std::ranges::find_if(known, [](auto* r) { return r != nullptr; });
  MixedDeployment mixed;
  for (std::size_t k = 0; k < known.size(); ++k) {
    misses = k;
    TaskRow row;
    if (known[k] != nullptr) {
      row = *known[k];
    } else {
      IC_ASSIGN(TaskPoint made, Transfer(*some, experiment.tasks[k], bench));
      row = std::move(made.row);
      mixed.workers.insert(mixed.workers.end(), made.workers.begin(), made.workers.end());
    }
    if (!Meets(row, experiment.tasks[k].task, slack)) {
      return Fail(ErrorKind::kNoFeasibleConfig, "a target is missed");
    }
    mixed.rows.push_back(std::move(row));
  }
  SetRates(result.kinds, total_gpus, mixed);
  return mixed;
}

// Most requests of the mix first.
void SortByRate(std::vector<MixedDeployment>& list) {
  std::ranges::stable_sort(list, std::ranges::greater{}, &MixedDeployment::seq_s_gpu_cluster);
}

// The deployments of one layout, and the one that the runs choose.
struct MixLadder {
  const MixExperiment* experiment = nullptr;
  std::vector<MixedDeployment> rungs;  // by falling rate
  std::size_t start = 0;               // the formula's best
  std::optional<MixedDeployment> chosen;
  std::vector<std::size_t> failed;  // runs that each kind's targets ruled out
  std::optional<Error> error;       // of runs that could not be made
};

void Climb(const MixResult& result, std::int64_t total_gpus, MixLadder& ladder) {
  const std::size_t kinds = result.kinds.size();
  ladder.failed.assign(kinds, 0);
  WorkerMap workers;
  for (const MixedDeployment& rung : ladder.rungs) AddWorkers(rung.workers, workers);
  for (const ExperimentOutcome* outcome : ladder.experiment->outcomes) {
    AddWorkers(outcome->table.workers, workers);
  }
  std::vector<RowRunner> runners;
  runners.reserve(kinds);
  for (const ResolvedTask& task : ladder.experiment->tasks) runners.emplace_back(task, workers);
  const auto load = [&](std::size_t place) {
    return PickRowOf(ladder.rungs[place].rows.front()).concurrency;
  };
  const auto cheap = [&](std::size_t place) {
    return static_cast<double>(kLoadWaves) * load(place) <= kCheapRun;
  };
  const auto met = [&](std::size_t place) {
    MixedDeployment& mixed = ladder.rungs[place];
    for (std::size_t k = 0; k < kinds; ++k) {
      const Task& task = ladder.experiment->tasks[k].task;
      if (!runners[k].Run(mixed.rows[k], task.ttft) || !Meets(mixed.rows[k], task)) {
        ++ladder.failed[k];
        return false;
      }
    }
    SetRates(result.kinds, total_gpus, mixed);
    if (!ladder.chosen || mixed.seq_s_gpu_cluster > ladder.chosen->seq_s_gpu_cluster) {
      ladder.chosen = mixed;
    }
    return true;
  };
  ClimbLadder(ladder.rungs.size(), ladder.start, met, cheap, load);
  for (const RowRunner& runner : runners) {
    if (runner.error()) ladder.error = runner.error();
  }
}

Error NoneMeetsAll(const MixResult& result, const std::vector<std::size_t>& failed,
                   const std::string& how) {
  const auto hardest = static_cast<std::size_t>(std::ranges::max_element(failed) - failed.begin());
  return {ErrorKind::kNoFeasibleConfig,
          fmt::format("none of {} deployments meets the targets of all workloads{}; {} rules "
                      "out most: loosen its targets or serve it apart",
                      result.compared, how, result.kinds[hardest].name)};
}

// The ladder of a layout: every deployment of it that the formula does not rule out clearly, to be
// tried from `best`, the formula's, on.
MixLadder LadderOf(const MixExperiment& experiment, const MixedDeployment& best,
                   const MixResult& result, std::int64_t total_gpus, Workbench& bench) {
  MixLadder ladder;
  ladder.experiment = &experiment;
  for (const auto& [key, known] : AllOf(experiment, LayoutKey(best.rows.front()))) {
    std::size_t misses = 0;
    Result<MixedDeployment> mixed =
        Mix(known, experiment, kSlack, result, total_gpus, bench, misses);
    if (mixed && mixed->replicas > 0) ladder.rungs.push_back(*std::move(mixed));
  }
  SortByRate(ladder.rungs);
  const std::string key = DeploymentKey(best.rows.front());
  const auto start = std::ranges::find_if(ladder.rungs, [&](const MixedDeployment& rung) {
    return DeploymentKey(rung.rows.front()) == key;
  });
  if (start != ladder.rungs.end()) {
    ladder.start = static_cast<std::size_t>(start - ladder.rungs.begin());
  }
  return ladder;
}

// A field of a workload; kYaml, with the names of both, where it is not what it should be.
template <typename T>
Result<T> FieldOf(const YAML::Node& field, const std::string& where, const std::string& key) {
  try {
    return field.as<T>();
  } catch (const YAML::Exception&) {
    const bool whole = std::is_integral_v<T>;
    return Fail(ErrorKind::kYaml,
                fmt::format("{}: {}: expected a {}number{}", where, key, whole ? "whole " : "",
                            field.IsScalar() ? ", got '" + field.Scalar() + "'" : ""));
  }
}

}  // namespace

const std::vector<WorkloadKind>& WorkloadPresets() {
  static const std::vector<WorkloadKind> presets = {
      // A turn of a conversation whose earlier turns are cached.
      {"chat", {.isl = 2000, .osl = 400, .prefix = 1200}, 1, {}, {}},
      // A question with retrieved passages; only the instructions are cached.
      {"rag", {.isl = 6000, .osl = 300, .prefix = 500}, 1, {}, {}},
      {"summarise", {.isl = 12000, .osl = 600, .prefix = 0}, 1, {}, {}},
      {"code", {.isl = 4000, .osl = 800, .prefix = 2000}, 1, {}, {}},
      // A step of an agent: a long history, nearly all of it cached.
      {"agent", {.isl = 24000, .osl = 500, .prefix = 20000}, 1, {}, {}},
      {"reasoning", {.isl = 1000, .osl = 8000, .prefix = 0}, 1, {}, {}},
  };
  return presets;
}

Result<std::vector<WorkloadKind>> ParseWorkloads(std::string_view text) {
  std::vector<WorkloadKind> kinds;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::string name(part.substr(0, part.find('=')));
    const WorkloadKind* preset = FindPreset(name);
    if (preset == nullptr) return UnknownPreset(name);
    WorkloadKind kind = *preset;
    if (name.size() < part.size()) {
      const std::string share(part.substr(name.size() + 1));
      char* end = nullptr;
      kind.share = std::strtod(share.c_str(), &end);
      if (share.empty() || *end != '\0') kind.share = 0;
    }
    IC_RETURN_IF_ERROR(CheckKind(kind));
    kinds.push_back(std::move(kind));
    if (part.size() == text.size()) return kinds;
    text.remove_prefix(part.size() + 1);
  }
}

Result<std::vector<WorkloadKind>> ParseWorkloadYaml(const std::string& text,
                                                    const std::string& name) {
  std::vector<WorkloadKind> kinds;
  try {
    const YAML::Node document = YAML::Load(text);
    if (!document.IsMap() || document.size() == 0) {
      return Fail(ErrorKind::kYaml, fmt::format("{}: a mapping of workloads is expected, e.g. "
                                                "\"mine: {{isl: 4000, osl: 500, share: 2}}\"",
                                                name));
    }
    for (const auto& entry : document) {
      WorkloadKind kind;
      kind.name = entry.first.as<std::string>();
      const YAML::Node& fields = entry.second;
      if (!fields.IsMap() && !fields.IsNull()) {
        return Fail(ErrorKind::kYaml,
                    fmt::format("{}: {} must be a mapping with isl and osl", name, kind.name));
      }
      const WorkloadKind* preset = FindPreset(kind.name);
      const bool described = fields.IsMap() && fields["isl"];
      if (!described) {
        if (preset == nullptr) return UnknownPreset(kind.name);
        kind = *preset;
      } else {
        kind.workload.prefix = 0;
      }
      const std::string where = fmt::format("{}: {}", name, kind.name);
      for (const auto& field : fields) {
        const auto key = field.first.as<std::string>();
        const YAML::Node& value = field.second;
        if (key == "isl") {
          IC_ASSIGN(kind.workload.isl, FieldOf<std::int64_t>(value, where, key));
        } else if (key == "osl") {
          IC_ASSIGN(kind.workload.osl, FieldOf<std::int64_t>(value, where, key));
        } else if (key == "prefix") {
          IC_ASSIGN(kind.workload.prefix, FieldOf<std::int64_t>(value, where, key));
        } else if (key == "prefix_hit") {
          IC_ASSIGN(const double hit, FieldOf<double>(value, where, key));
          if (!(hit >= 0 && hit < 1)) {
            return Fail(ErrorKind::kInvalidArgument,
                        where + ": prefix_hit is a share of isl, 0 or more and below 1");
          }
          std::int64_t isl = kind.workload.isl;
          if (fields["isl"]) {
            IC_ASSIGN(isl, FieldOf<std::int64_t>(fields["isl"], where, "isl"));
          }
          kind.workload.prefix = static_cast<std::int64_t>(hit * static_cast<double>(isl));
        } else if (key == "share") {
          IC_ASSIGN(kind.share, FieldOf<double>(value, where, key));
        } else if (key == "ttft") {
          IC_ASSIGN(kind.ttft, FieldOf<double>(value, where, key));
        } else if (key == "tpot") {
          IC_ASSIGN(kind.tpot, FieldOf<double>(value, where, key));
        } else {
          const std::vector<std::string> known = {"isl",   "osl",  "prefix", "prefix_hit",
                                                  "share", "ttft", "tpot"};
          return Fail(ErrorKind::kInvalidArgument,
                      fmt::format("{}: unknown field '{}'{}; known: {}", where, key,
                                  DidYouMean(key, known), JoinNames(known)));
        }
      }
      if (described && !fields["osl"]) {
        return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: {} has no osl", name, kind.name));
      }
      IC_RETURN_IF_ERROR(CheckKind(kind));
      kinds.push_back(std::move(kind));
    }
  } catch (const YAML::Exception& error) {
    return Fail(ErrorKind::kYaml, fmt::format("{}: {}", name, error.what()));
  }
  return kinds;
}

Result<std::vector<WorkloadKind>> ReadWorkloads(const std::filesystem::path& file) {
  IC_ASSIGN(const std::string text, ReadTextFile(file));
  return ParseWorkloadYaml(text, file.string());
}

Result<MixResult> SearchMix(const std::vector<WorkloadKind>& kinds, const RunRequest& request,
                            std::int64_t total_gpus, Workbench& bench) {
  MixResult result;
  result.kinds = kinds;
  double all_shares = 0;
  for (WorkloadKind& kind : result.kinds) {
    all_shares += kind.share;
    if (!kind.ttft) kind.ttft = request.ttft;
    if (!kind.tpot) kind.tpot = request.tpot;
  }
  for (WorkloadKind& kind : result.kinds) kind.share /= all_shares;

  // One search of each kind; experiments are the same ones for all kinds, in the same order.
  std::vector<ExperimentsResult> found;
  for (const WorkloadKind& kind : result.kinds) {
    RunRequest one = request;
    one.workload = kind.workload;
    one.ttft = *kind.ttft;
    one.tpot = *kind.tpot;
    std::erase(one.modes, ServingMode::kAfd);
    IC_ASSIGN(StandardExperiments standard, MakeExperiments(one, total_gpus, bench));
    for (const std::string& note : standard.notes) {
      if (std::ranges::find(result.notes, note) == result.notes.end()) result.notes.push_back(note);
    }
    ExperimentOptions options;
    options.top_n = kBestOfEach;
    options.strict = true;
    Result<ExperimentsResult> searched = RunExperiments(standard.experiments, options, bench);
    if (!searched) {
      searched.error().message =
          fmt::format("workload {}: {}", kind.name, searched.error().message);
      return std::unexpected(searched.error());
    }
    found.push_back(*std::move(searched));
  }

  std::vector<MixExperiment> experiments;
  for (std::size_t e = 0; e < found.front().outcomes.size(); ++e) {
    MixExperiment& experiment = experiments.emplace_back();
    for (const ExperimentsResult& of_kind : found) {
      Result<ResolvedTask> resolved = ResolveTask(of_kind.outcomes[e].task, bench);
      if (!resolved) break;
      experiment.tasks.push_back(*std::move(resolved));
      experiment.outcomes.push_back(&of_kind.outcomes[e]);
    }
    if (experiment.tasks.size() != kinds.size()) experiment = {};
  }

  // By the formula: the best deployment of each layout.
  std::vector<std::size_t> failed(kinds.size());  // candidates that each kind's targets ruled out
  std::vector<std::pair<const MixExperiment*, MixedDeployment>> best_of_layout;
  std::map<std::string, std::size_t> place;
  for (const MixExperiment& experiment : experiments) {
    for (const auto& [key, known] : BestOf(experiment)) {
      ++result.compared;
      std::size_t misses = 0;
      Result<MixedDeployment> mixed = Mix(known, experiment, 1, result, total_gpus, bench, misses);
      if (!mixed) {
        ++failed[misses];
        continue;
      }
      if (mixed->replicas == 0) continue;
      mixed->experiment = experiment.outcomes.front()->name;
      const std::string layout = mixed->experiment + " " + LayoutKey(mixed->rows.front());
      const auto [at, added] = place.try_emplace(layout, best_of_layout.size());
      if (added) {
        best_of_layout.emplace_back(&experiment, *std::move(mixed));
      } else if (mixed->seq_s_gpu_cluster > best_of_layout[at->second].second.seq_s_gpu_cluster) {
        best_of_layout[at->second].second = *std::move(mixed);
      }
    }
  }
  if (best_of_layout.empty()) return std::unexpected(NoneMeetsAll(result, failed, ""));
  // In the order of the layouts' names where rates are equal.
  std::vector<std::size_t> order;
  for (const auto& [layout, at] : place) order.push_back(at);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t at) {
    return best_of_layout[at].second.seq_s_gpu_cluster;
  });

  const auto finish = [&](const MixExperiment& experiment, MixedDeployment mixed) {
    mixed.experiment = experiment.outcomes.front()->name;
    mixed.task = experiment.tasks.front().task;
    for (const ExperimentOutcome* outcome : experiment.outcomes) {
      const auto& owners = outcome->table.workers;
      mixed.workers.insert(mixed.workers.end(), owners.begin(), owners.end());
    }
    result.best.push_back(std::move(mixed));
  };
  const auto by_formula = [&]() -> MixResult {
    for (const std::size_t at : order) {
      if (result.best.size() == request.top_n) break;
      finish(*best_of_layout[at].first, std::move(best_of_layout[at].second));
    }
    return std::move(result);
  };
  if (request.score != ScoredBy::kClosedLoop || request.behaviour != Behaviour::kNative) {
    return by_formula();
  }

  // By the closed loop: layouts by the formula's rank, until enough of them have a deployment whose
  // runs meet every target.
  const std::size_t wanted = std::max(request.top_n, kLeastLayouts);
  const std::size_t most = std::max(kMostLayouts, wanted + kSpareLayouts);
  const auto stopped = [&] { return bench.watch() != nullptr && bench.watch()->stopped(); };
  std::vector<MixLadder> ladders;
  std::size_t next = 0;
  std::size_t met = 0;
  while (met < wanted && ladders.size() < most && next < order.size()) {
    const std::size_t begin = ladders.size();
    const std::size_t end = std::min(begin + wanted - met + kSpareLayouts, most);
    for (; next < order.size() && ladders.size() < end; ++next) {
      const auto& [experiment, best] = best_of_layout[order[next]];
      if (!CanBeRun(best.rows.front())) continue;
      MixLadder ladder = LadderOf(*experiment, best, result, total_gpus, bench);
      if (!ladder.rungs.empty()) ladders.push_back(std::move(ladder));
    }
    tbb::parallel_for(begin, ladders.size(),
                      [&](std::size_t i) { Climb(result, total_gpus, ladders[i]); });
    for (std::size_t i = begin; i < ladders.size(); ++i) {
      if (ladders[i].chosen) ++met;
      ladders[i].rungs.clear();
    }
    if (stopped()) break;
  }
  std::ranges::fill(failed, 0);
  std::optional<Error> error;
  bool all_broken = true;
  for (MixLadder& ladder : ladders) {
    for (std::size_t k = 0; k < kinds.size(); ++k) failed[k] += ladder.failed[k];
    if (ladder.error) error = ladder.error;
    all_broken = all_broken && ladder.error && !ladder.chosen;
    if (ladder.chosen) finish(*ladder.experiment, *std::move(ladder.chosen));
  }
  if (all_broken) {
    result.notes.push_back("scored by the formula: no benchmark could be run in virtual time" +
                           (error ? ": " + error->message : ""));
    return by_formula();
  }
  result.scored_by = ScoredBy::kClosedLoop;
  SortByRate(result.best);
  if (result.best.size() > request.top_n) result.best.resize(request.top_n);
  const bool all_run = next == order.size();
  const std::string widen = all_run ? "" : fmt::format("--top-n {} runs all", order.size());
  if (result.best.empty()) {
    const std::string which = !all_run
                                  ? fmt::format("{} of {} layouts", ladders.size(), order.size())
                              : ladders.size() == 1 ? "the only layout"
                                                    : fmt::format("all {} layouts", ladders.size());
    return std::unexpected(NoneMeetsAll(
        result, failed,
        fmt::format(" in benchmark runs of {} (the formula found some: --score formula{})", which,
                    all_run ? "" : "; " + widen)));
  }
  if (result.best.size() < request.top_n && !all_run && !stopped()) {
    result.notes.push_back(
        fmt::format("of {} layouts the {} that the formula ranks first were run; {}", order.size(),
                    ladders.size(), widen));
  }
  return result;
}

}  // namespace infercast
