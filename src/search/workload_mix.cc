#include "search/workload_mix.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files.h"
#include "base/near_names.h"
#include "search/experiments.h"
#include "search/task_resolution.h"

namespace infercast {
namespace {

// How many deployments of each kind's search are tried under the others: its front and its best.
constexpr std::size_t kBestOfEach = 60;

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

bool Meets(const TaskRow& row, const Task& task) {
  const PickRow figures = PickRowOf(row);
  return figures.ttft <= task.ttft && figures.tpot <= task.tpot && figures.seq_s > 0;
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
      for (const auto& field : fields) {
        const auto key = field.first.as<std::string>();
        if (key == "isl") {
          kind.workload.isl = field.second.as<std::int64_t>();
        } else if (key == "osl") {
          kind.workload.osl = field.second.as<std::int64_t>();
        } else if (key == "prefix") {
          kind.workload.prefix = field.second.as<std::int64_t>();
        } else if (key == "prefix_hit") {
          const auto hit = field.second.as<double>();
          if (!(hit >= 0 && hit < 1)) {
            return Fail(ErrorKind::kInvalidArgument,
                        fmt::format("{}: {}: prefix_hit is a share of isl, 0 or more and below 1",
                                    name, kind.name));
          }
          const auto isl = fields["isl"] ? fields["isl"].as<std::int64_t>() : kind.workload.isl;
          kind.workload.prefix = static_cast<std::int64_t>(hit * static_cast<double>(isl));
        } else if (key == "share") {
          kind.share = field.second.as<double>();
        } else if (key == "ttft") {
          kind.ttft = field.second.as<double>();
        } else if (key == "tpot") {
          kind.tpot = field.second.as<double>();
        } else {
          const std::vector<std::string> known = {"isl",   "osl",  "prefix", "prefix_hit",
                                                  "share", "ttft", "tpot"};
          return Fail(ErrorKind::kInvalidArgument,
                      fmt::format("{}: {}: unknown field '{}'{}; known: {}", name, kind.name, key,
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

  std::vector<std::size_t> failed(kinds.size());  // candidates that each kind's targets ruled out
  std::map<std::string, MixedDeployment> best_of_layout;
  for (std::size_t e = 0; e < found.front().outcomes.size(); ++e) {
    std::vector<ResolvedTask> tasks;
    for (const ExperimentsResult& of_kind : found) {
      Result<ResolvedTask> resolved = ResolveTask(of_kind.outcomes[e].task, bench);
      if (!resolved) break;
      tasks.push_back(*std::move(resolved));
    }
    if (tasks.size() != kinds.size()) continue;
    // Each deployment once, with the rows that searches already have of it.
    struct Candidate {
      std::vector<const TaskRow*> known;
    };
    std::map<std::string, Candidate> candidates;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const ExperimentOutcome& outcome = found[k].outcomes[e];
      std::set<std::uint32_t> chosen;
      for (const Pick& pick : outcome.pick.best) chosen.insert(pick.row);
      for (const Pick& pick : outcome.pick.front) chosen.insert(pick.row);
      for (std::uint32_t i = 0; i < outcome.table.rows.size() && i < kBestOfEach; ++i) {
        chosen.insert(i);
      }
      for (const std::uint32_t i : chosen) {
        const TaskRow& row = outcome.table.rows[i];
        if (!row.aggregated() && !row.disaggregated()) continue;
        Candidate& candidate = candidates[DeploymentKey(row)];
        candidate.known.resize(kinds.size());
        candidate.known[k] = &row;
      }
    }
    for (const auto& [key, candidate] : candidates) {
      ++result.compared;
      const TaskRow* some = *std::ranges::find_if(candidate.known, [](auto* r) { return r; });
      MixedDeployment mixed;
      double time_per_request = 0;
      bool all_meet = true;
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        TaskRow row;
        if (candidate.known[k] != nullptr) {
          row = *candidate.known[k];
        } else {
          Result<TaskPoint> made = Transfer(*some, tasks[k], bench);
          if (!made) {
            all_meet = false;
            ++failed[k];
            break;
          }
          row = made->row;
          mixed.workers.insert(mixed.workers.end(), made->workers.begin(), made->workers.end());
        }
        if (!Meets(row, tasks[k].task)) {
          all_meet = false;
          ++failed[k];
          break;
        }
        time_per_request += result.kinds[k].share / SeqPerSecond(row);
        mixed.rows.push_back(row);
      }
      if (!all_meet) continue;
      const auto gpus = PickRowOf(mixed.rows.front()).num_total_gpus;
      mixed.experiment = found.front().outcomes[e].name;
      mixed.task = tasks.front().task;
      mixed.seq_s = 1 / time_per_request;
      mixed.seq_s_gpu = mixed.seq_s / static_cast<double>(gpus);
      mixed.replicas = total_gpus / gpus;
      mixed.seq_s_gpu_cluster = mixed.seq_s_gpu * static_cast<double>(mixed.replicas * gpus) /
                                static_cast<double>(total_gpus);
      if (mixed.replicas == 0) continue;
      const std::string layout = mixed.experiment + " " + LayoutKey(mixed.rows.front());
      const auto [entry, added] = best_of_layout.try_emplace(layout);
      if (added || mixed.seq_s_gpu_cluster > entry->second.seq_s_gpu_cluster) {
        for (const ExperimentsResult& of_kind : found) {
          const auto& owners = of_kind.outcomes[e].table.workers;
          mixed.workers.insert(mixed.workers.end(), owners.begin(), owners.end());
        }
        entry->second = std::move(mixed);
      }
    }
  }
  for (auto& [layout, mixed] : best_of_layout) result.best.push_back(std::move(mixed));
  std::ranges::stable_sort(result.best, std::ranges::greater{},
                           &MixedDeployment::seq_s_gpu_cluster);
  if (result.best.size() > request.top_n) result.best.resize(request.top_n);
  if (result.best.empty()) {
    const auto hardest =
        static_cast<std::size_t>(std::ranges::max_element(failed) - failed.begin());
    return Fail(ErrorKind::kNoFeasibleConfig,
                fmt::format("none of {} deployments meets the targets of all workloads; {} rules "
                            "out most: loosen its targets or serve it apart",
                            result.compared, result.kinds[hardest].name));
  }
  return result;
}

}  // namespace infercast
