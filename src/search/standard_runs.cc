// Requests to experiments: which backends and modes can be tried at all, and how GPU counts grow.
#include "search/standard_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/near_names.h"
#include "search/run_task.h"
#include "search/task_resolution.h"

namespace infercast {

namespace {

constexpr std::array<Backend, 3> kBackends = {Backend::kTrtllm, Backend::kSglang, Backend::kVllm};
constexpr std::int64_t kMostGpus = 64;  // of one worker in a search for the fewest GPUs

bool NeedsData(DatabaseMode mode) {
  return mode == DatabaseMode::kSilicon || mode == DatabaseMode::kHybrid;
}

// Whether something was measured for a backend on a system (in the version asked for).
Status CheckData(const RunRequest& request, const std::string& system, Backend backend,
                 Workbench& bench) {
  IC_ASSIGN(const auto root, bench.systems().RootOf(system));
  static_cast<void>(root);
  if (!NeedsData(request.database_mode)) return {};
  if (request.version) {
    const auto version = bench.systems().ResolveVersion(system, backend, *request.version,
                                                        request.allow_unlisted_versions);
    if (!version) return std::unexpected(version.error());
    return {};
  }
  if (bench.systems().LatestVersion(system, backend)) return {};
  std::vector<std::string> others;
  for (const Backend other : kBackends) {
    if (bench.systems().LatestVersion(system, other)) others.emplace_back(ToString(other));
  }
  return Fail(ErrorKind::kPerfDatabase,
              fmt::format("nothing was measured for {} on {}; {}", ToString(backend), system,
                          others.empty() ? "use the database mode SOL for a speed-of-light answer"
                                         : "measured there: " + JoinNames(others)));
}

RoleChoice RoleOf(const RunRequest& request, const std::string& system, Backend backend) {
  RoleChoice role;
  role.model = request.model;
  role.system = system;
  role.backend = backend;
  role.version = request.version;
  role.quant = request.quant;
  return role;
}

Task TaskOf(const RunRequest& request, ServingMode mode, Backend backend, std::int64_t total_gpus) {
  Task task;
  task.mode = mode;
  task.workload = request.workload;
  task.encoder_data_parallel = request.encoder_data_parallel;
  task.ttft = request.ttft;
  task.tpot = request.tpot;
  task.request_latency = request.request_latency;
  task.total_gpus = total_gpus;
  task.database_mode = request.database_mode;
  task.policy = request.policy;
  task.memory_fraction = request.memory_fraction;
  task.max_seq_len = request.max_seq_len;
  task.forward_model = request.forward_model;
  task.nextn = request.nextn;
  task.nextn_accepted = request.nextn_accepted;
  if (backend == Backend::kSglang) task.moe_backend = request.moe_backend;
  task.attention_backend = request.attention_backend;
  task.behaviour = request.behaviour;
  task.allow_unlisted_versions = request.allow_unlisted_versions;
  const std::string& decode_system =
      request.decode_system ? *request.decode_system : request.system;
  if (mode == ServingMode::kDisaggregated) {
    task.prefill = RoleOf(request, request.system, backend);
    task.prefill.chunked_prefill = request.chunked_prefill;
    task.decode = RoleOf(request, decode_system, backend);
  } else {
    task.worker = RoleOf(request, request.system, backend);
    task.worker.chunked_prefill = request.chunked_prefill;
  }
  if (mode == ServingMode::kAfd) {
    task.afd = request.afd;
  } else {
    task.epd = request.epd;
  }
  return task;
}

// Why a mode cannot be tried; empty when it can.
Result<std::string> Obstacle(const RunRequest& request, ServingMode mode, Backend backend,
                             std::int64_t total_gpus, Workbench& bench) {
  if (mode == ServingMode::kDisaggregated) {
    if (total_gpus < 2) return std::string("two pools need at least two GPUs");
    if (request.decode_system) {
      const Status data = CheckData(request, *request.decode_system, backend, bench);
      if (!data) return data.error().message;
    }
  }
  if (mode == ServingMode::kAfd) {
    IC_ASSIGN(const SystemSpec spec, bench.systems().Spec(request.system));
    if (spec.num_gpus_per_node == 0) return std::string("the system's node width is not known");
    if (total_gpus < 2 * static_cast<std::int64_t>(spec.num_gpus_per_node)) {
      return fmt::format("attention/feed-forward disaggregation needs two nodes of {} GPUs",
                         spec.num_gpus_per_node);
    }
  }
  return std::string();
}

// The draft depth that a load is sized with.
Result<std::optional<std::int64_t>> DraftDepth(const RunRequest& request, bool nextn_given,
                                               Workbench& bench) {
  if (nextn_given && request.nextn) return request.nextn;
  if (!nextn_given && !request.nextn_accepted) return std::optional<std::int64_t>(0);
  IC_ASSIGN(const auto model, bench.Model(request.model));
  // Architectures that draft blocks of a fixed size.
  const std::int64_t block = model->architecture == "KimiK3ForConditionalGeneration" ? 7 : 0;
  if (!nextn_given) return std::optional<std::int64_t>(block);
  return std::optional<std::int64_t>(model->draft_layers > 0 ? model->draft_layers : block);
}

std::vector<std::int64_t> PowersUpTo(std::int64_t limit) {
  std::vector<std::int64_t> list;
  for (std::int64_t v = 1; v <= limit; v *= 2) list.push_back(v);
  return list;
}

// The task of a load search at a GPU budget. The reference builds it from the resolved base task,
// so that everything resolved counts as the user's own choice and replicas stay within one node.
Result<Task> WithBudget(const Task& given, std::int64_t gpus, Workbench& bench) {
  Task task = given;
  if (given.behaviour == Behaviour::kReference) {
    IC_ASSIGN(ResolvedTask resolved, ResolveTask(given, bench));
    task = std::move(resolved.task);
    for (RoleChoice* role : {&task.worker, &task.prefill, &task.decode}) {
      if (!role->model.empty()) {
        role->quant.gemm_explicit = true;
        role->lists.num_gpu = PowersUpTo(gpus);
      }
    }
  } else if (task.mode == ServingMode::kDisaggregated) {
    // A load is served by whole replicas of any size.
    for (std::int64_t n = 2; n <= gpus; ++n) task.disagg.num_gpu_per_replica.push_back(n);
    task.disagg.max_gpu_per_replica = gpus;
  }
  task.total_gpus = gpus;
  return task;
}

}  // namespace

Result<StandardExperiments> MakeExperiments(const RunRequest& request, std::int64_t total_gpus,
                                            Workbench& bench) {
  StandardExperiments out;
  const auto asks = [&](ServingMode mode) {
    return std::ranges::find(request.modes, mode) != request.modes.end();
  };
  if (request.epd.enabled && asks(ServingMode::kAfd) && request.modes.size() == 1) {
    return Fail(ErrorKind::kInvalidArgument,
                "an encoder pool goes with aggregated or disaggregated serving, not with AFD");
  }
  std::vector<Backend> backends;
  if (request.backend) {
    IC_RETURN_IF_ERROR(CheckData(request, request.system, *request.backend, bench));
    if (request.decode_system && asks(ServingMode::kDisaggregated)) {
      IC_RETURN_IF_ERROR(CheckData(request, *request.decode_system, *request.backend, bench));
    }
    backends = {*request.backend};
  } else {
    std::optional<Error> last;
    for (const Backend backend : kBackends) {
      if (request.moe_backend == "megamoe" && backend != Backend::kSglang) continue;
      if (Status data = CheckData(request, request.system, backend, bench)) {
        backends.push_back(backend);
      } else {
        last = data.error();
      }
    }
    if (backends.empty()) return std::unexpected(*last);
  }
  for (const Backend backend : backends) {
    for (const ServingMode mode :
         {ServingMode::kAggregated, ServingMode::kAfd, ServingMode::kDisaggregated}) {
      if (!asks(mode)) continue;
      if (mode == ServingMode::kAfd && request.epd.enabled) continue;
      std::string name(ToString(mode));
      if (!request.backend) name += fmt::format("_{}", ToString(backend));
      IC_ASSIGN(const std::string why, Obstacle(request, mode, backend, total_gpus, bench));
      if (!why.empty()) {
        out.notes.push_back(fmt::format("{} is left out: {}", name, why));
        continue;
      }
      out.experiments.push_back({std::move(name), TaskOf(request, mode, backend, total_gpus)});
    }
  }
  if (out.experiments.empty()) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("nothing can be tried: {}", JoinNames(out.notes)));
  }
  return out;
}

Result<ExperimentsResult> RunDefault(const RunRequest& request, std::int64_t total_gpus,
                                     Workbench& bench) {
  if (total_gpus < 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("total_gpus is {}: at least 1", total_gpus));
  }
  IC_ASSIGN(const StandardExperiments made, MakeExperiments(request, total_gpus, bench));
  ExperimentOptions options;
  options.top_n = request.top_n;
  options.score = request.score;
  options.strict = request.strict;
  options.merge = true;
  return RunExperiments(made.experiments, options, bench);
}

Result<ExperimentsResult> RunRecommend(const RunRequest& given, const LoadTarget& load,
                                       bool nextn_given, Workbench& bench) {
  ExperimentOptions options;
  options.top_n = given.top_n;
  options.score = given.score;
  options.strict = given.strict;
  options.load = load;
  options.merge = true;
  // Fails for a load that is none.
  if (const auto checked = PickForLoad({}, load, {}, 1, given.behaviour); !checked) {
    return std::unexpected(checked.error());
  }
  RunRequest request = given;
  IC_ASSIGN(request.nextn, DraftDepth(given, nextn_given, bench));
  IC_ASSIGN(const SystemSpec spec, bench.systems().Spec(request.system));
  const std::int64_t node = std::max<std::int64_t>(spec.num_gpus_per_node, 1);
  IC_ASSIGN(const StandardExperiments base, MakeExperiments(request, node, bench));
  for (std::int64_t gpus = node;; gpus *= 2) {
    std::vector<Experiment> experiments;
    for (const Experiment& experiment : base.experiments) {
      Result<Task> task = WithBudget(experiment.task, gpus, bench);
      // What cannot be resolved fails again, with its reason, when it is run.
      experiments.push_back({experiment.name, task ? *std::move(task) : experiment.task});
    }
    Result<ExperimentsResult> result = RunExperiments(experiments, options, bench);
    bool memory = false;
    if (result) {
      memory = std::ranges::any_of(result->outcomes, [](const ExperimentOutcome& outcome) {
        return outcome.error && outcome.error->kind == ErrorKind::kDoesNotFit;
      });
    } else {
      memory = result.error().kind == ErrorKind::kDoesNotFit;
    }
    if (!memory || gpus * 2 > kMostGpus) return result;
  }
}

}  // namespace infercast
