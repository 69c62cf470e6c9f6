// Resolution of a task, step by step, in the order in which one setting depends on another.
#include "search/task_resolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "search/default_lists.h"

namespace infercast {

namespace {

bool IsSet(const QuantOverrides& q) { return q.gemm || q.moe || q.kv || q.fmha || q.comm; }

std::vector<WorkerRole> RolesOf(ServingMode mode) {
  if (mode == ServingMode::kDisaggregated) return {WorkerRole::kPrefill, WorkerRole::kDecode};
  return {WorkerRole::kAggregated};
}

RoleChoice& ChoiceOf(Task& task, WorkerRole role) {
  switch (role) {
    case WorkerRole::kPrefill:
      return task.prefill;
    case WorkerRole::kDecode:
      return task.decode;
    case WorkerRole::kAggregated:
      break;
  }
  return task.worker;
}

// Pools are described by their own settings; those of a single worker would be ignored.
Status CheckSettingsOfPools(const Task& task) {
  const RoleChoice& w = task.worker;
  const char* stray = !w.model.empty()    ? "model_path"
                      : !w.system.empty() ? "system_name"
                      : w.chunked_prefill ? "enable_chunked_prefill"
                      : w.enable_eplb     ? "enable_eplb"
                      : IsSet(w.quant)    ? "a number format"
                                          : nullptr;
  if (stray == nullptr) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is set without a role in a disaggregated task: use its prefill_ and "
                          "decode_ forms",
                          stray));
}

Status CheckNames(const Task& task) {
  const auto missing = [](const char* what) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{} is not given", what));
  };
  if (task.mode == ServingMode::kDisaggregated) {
    if (task.prefill.model.empty()) return missing("prefill_model_path");
    if (task.decode.model.empty()) return missing("decode_model_path");
    if (task.prefill.model != task.decode.model) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("prefill and decode serve different models: {} and {}",
                              task.prefill.model, task.decode.model));
    }
    if (task.prefill.system.empty()) return missing("prefill_system_name");
    if (task.decode.system.empty()) return missing("decode_system_name");
    return {};
  }
  if (task.worker.model.empty()) return missing("model_path");
  if (task.worker.system.empty()) return missing("system_name");
  return {};
}

// Checkpoints with fp4 experts that Hopper GPUs cannot run, and what serves them there.
Status CheckHopper(const RoleChoice& choice, const SystemSpec& system) {
  struct Pair {
    std::string_view model, instead;
  };
  constexpr std::array<Pair, 4> kPairs = {
      {{"deepseek-ai/DeepSeek-V4-Flash", "sgl-project/DeepSeek-V4-Flash-FP8"},
       {"deepseek-ai/DeepSeek-V4-Pro", "sgl-project/DeepSeek-V4-Pro-FP8"},
       {"nvidia/DeepSeek-V4-Flash-NVFP4", "sgl-project/DeepSeek-V4-Flash-FP8"},
       {"nvidia/DeepSeek-V4-Pro-NVFP4", "sgl-project/DeepSeek-V4-Pro-FP8"}}};
  if (!system.IsHopper()) return {};
  for (const Pair& pair : kPairs) {
    if (choice.model == pair.model) {
      return Fail(ErrorKind::kInvalidArgument, fmt::format("{} does not run on {} (Hopper): use {}",
                                                           pair.model, system.name, pair.instead));
    }
  }
  return {};
}

// Megamoe is one kernel of one backend for one model on one generation of GPUs.
Status CheckMegaMoe(const Task& task, std::span<const ResolvedRole> roles) {
  if (task.moe_backend != "megamoe") return {};
  const ModelConfig& model = *roles.front().model;
  for (const ResolvedRole& role : roles) {
    if (role.request.backend != Backend::kSglang) {
      return Fail(ErrorKind::kInvalidArgument, "the expert kernel megamoe needs sglang");
    }
    if (model.family_id() != ModelFamily::kDeepseekV4 ||
        (model.name != "deepseek-ai/DeepSeek-V4-Pro" &&
         model.name != "sgl-project/DeepSeek-V4-Pro-FP8")) {
      return Fail(
          ErrorKind::kInvalidArgument,
          fmt::format("the expert kernel megamoe serves DeepSeek-V4-Pro, not {}", model.name));
    }
    if (!role.database->system().IsBlackwell()) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("the expert kernel megamoe needs Blackwell GPUs, not {}",
                              role.database->system().name));
    }
  }
  return {};
}

Status CheckBudget(const Task& task) {
  if (!task.total_gpus || task.mode == ServingMode::kAfd) return {};
  const std::int64_t least = task.mode == ServingMode::kDisaggregated ? 2 : 0;
  if (*task.total_gpus >= least) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("total_gpus is {}: {} serving needs at least {}", *task.total_gpus,
                          ToString(task.mode), std::max<std::int64_t>(least, 1)));
}

// The experts' mode that measured exchanges are looked up by: the checkpoint's own, before a GPU
// without fp4 keeps it as weights only.
MoeQuant ExchangeMode(MoeQuant settled, const QuantOverrides& given, const SystemSpec& system) {
  const bool demoted =
      settled == MoeQuant::kNvfp4Wo && !system.IsBlackwell() && given.moe != MoeQuant::kNvfp4Wo;
  return demoted ? MoeQuant::kNvfp4 : settled;
}

BuildOptions BuildOf(const Task& task, const RoleChoice& choice) {
  BuildOptions build;
  build.backend = choice.backend;
  build.quant = choice.quant;
  build.nextn = task.nextn.value_or(0);
  build.language_only = task.epd.enabled;
  build.encoder_data_parallel = task.encoder_data_parallel;
  if (task.moe_backend && *task.moe_backend != "deepep_moe") build.moe_backend = task.moe_backend;
  build.attention_backend = task.attention_backend;
  build.forward_model = task.forward_model;
  build.enable_wideep = choice.enable_wideep;
  build.enable_eplb = choice.enable_eplb;
  build.expert_slots = task.expert_slots;
  return build;
}

// Opens a role's database and settles what does not depend on layouts.
Result<ResolvedRole> OpenRole(Task& task, WorkerRole which,
                              std::shared_ptr<const ModelConfig> model, Workbench& bench) {
  RoleChoice& choice = ChoiceOf(task, which);
  ResolvedRole role;
  role.role = which;
  role.model = std::move(model);
  SystemsCatalog::OpenRequest open;
  open.system = choice.system;
  open.backend = choice.backend;
  open.version = choice.version;
  open.mode = task.database_mode;
  open.policy = task.policy;
  open.behaviour = task.behaviour;
  open.allow_unlisted = task.allow_unlisted_versions;
  IC_ASSIGN(role.database, bench.Open(open));
  IC_RETURN_IF_ERROR(CheckHopper(choice, role.database->system()));
  choice.version = role.database->store().identity().version;
  role.request.model = choice.model;
  role.request.system = choice.system;
  role.request.backend = choice.backend;
  role.request.version = choice.version;
  role.request.mode = task.database_mode;
  role.request.policy = task.policy;
  role.request.behaviour = task.behaviour;
  role.request.allow_unlisted = task.allow_unlisted_versions;
  role.request.build = BuildOf(task, choice);
  role.experts.needs = NeedsOf(which);
  role.experts.fmha_explicit = choice.quant.fmha.has_value();
  role.experts.kv_explicit = choice.quant.kv.has_value();
  return role;
}

Status MeasureExperts(ResolvedRole& role) {
  if (!role.model->IsMoe()) return {};
  const DeploymentRequest& request = role.request;
  IC_ASSIGN(const SearchModes modes,
            ResolveForSearch(*role.model, *role.database, role.role, request.build, true, false));
  const MoeQuant quant =
      ExchangeMode(*modes.quant.moe, request.build.quant, role.database->system());
  role.experts.coverage = std::make_shared<const LargeEpCoverage>(
      MeasureLargeEpCoverage(*role.model, *role.database, quant));
  return {};
}

Result<std::vector<ParallelLayout>> LayoutsOf(const Task& task, const ResolvedRole& role,
                                              const CandidateLists& lists) {
  if (role.role == WorkerRole::kDecode &&
      std::ranges::any_of(lists.cp, [](std::int64_t cp) { return cp != 1; })) {
    return Fail(ErrorKind::kInvalidArgument, "decode workers have no context parallelism");
  }
  return EnumerateLayouts(lists, {.backend = role.request.backend,
                                  .is_moe = role.model->IsMoe(),
                                  .megamoe = task.moe_backend == "megamoe"});
}

// The sizes a role tries, and its layouts; true when some of them (before the GPU budget) have
// large expert parallelism.
Result<bool> FillSearchSpace(Task& task, ResolvedRole& role, bool pipelines) {
  RoleChoice& choice = ChoiceOf(task, role.role);
  const SystemSpec& system = role.database->system();
  ListRequest request;
  request.model = role.model.get();
  request.system = &system;
  // Both pools follow the lists of the backend that prefills.
  request.backend = task.primary().backend;
  request.role = role.role;
  request.megamoe = request.backend == Backend::kSglang && task.moe_backend == "megamoe";
  request.deepep = task.moe_backend == "deepep_moe";
  request.pipelines = pipelines;
  if (role.experts.coverage) {
    request.covered_eps =
        CoveredAcrossNodes(*role.experts.coverage, role.role, system.num_gpus_per_node);
  }
  FillLists(request, choice.lists);
  bool large = false;
  if (task.mode == ServingMode::kDisaggregated || task.epd.enabled) {
    IC_ASSIGN(const std::vector<ParallelLayout> all, LayoutsOf(task, role, choice.lists));
    large = std::ranges::any_of(all, [&](const ParallelLayout& l) { return role.IsLargeEp(l); });
  }
  if (task.total_gpus) {
    std::erase_if(choice.lists.num_gpu, [&](std::int64_t n) { return n > *task.total_gpus; });
  }
  IC_ASSIGN(role.layouts, LayoutsOf(task, role, choice.lists));
  return large;
}

void FillReplicaRules(Task& task, bool large_ep) {
  DisaggregatedChoice& d = task.disagg;
  if (!large_ep) {
    if (d.num_gpu_per_replica.empty()) {
      d.num_gpu_per_replica = {1, 2, 4, 8};
      for (std::int64_t n = 16; n <= 128; n += 8) d.num_gpu_per_replica.push_back(n);
    }
    if (!d.max_gpu_per_replica) d.max_gpu_per_replica = 128;
  } else if (!d.max_gpu_per_replica && task.mode == ServingMode::kDisaggregated) {
    d.max_gpu_per_replica = 512;
  }
  if (!d.max_prefill_workers) d.max_prefill_workers = 32;
  if (!d.max_decode_workers) d.max_decode_workers = 32;
  if (task.total_gpus && d.max_gpu_per_replica) {
    d.max_gpu_per_replica = std::min(*task.total_gpus, *d.max_gpu_per_replica);
  }
}

ReplicaRules RulesOf(const DisaggregatedChoice& d) {
  ReplicaRules rules;
  rules.max_prefill_workers = d.max_prefill_workers.value_or(32);
  rules.max_decode_workers = d.max_decode_workers.value_or(32);
  for (const std::int64_t n : d.num_gpu_per_replica) {
    if (!d.max_gpu_per_replica || n <= *d.max_gpu_per_replica) rules.allowed_gpus.push_back(n);
  }
  // Nothing listed (or nothing small enough): any size up to the limit.
  if (rules.allowed_gpus.empty()) rules.max_gpus = d.max_gpu_per_replica;
  std::ranges::sort(rules.allowed_gpus);
  return rules;
}

Status SettleModes(Task& task, ResolvedRole& role, std::vector<std::string>& notes) {
  bool fused = false;
  bool large = false;
  for (const ParallelLayout& layout : role.layouts) (role.IsLargeEp(layout) ? large : fused) = true;
  IC_ASSIGN(SearchModes modes,
            ResolveForSearch(*role.model, *role.database, role.role, role.request.build,
                             fused || role.layouts.empty(), large));
  role.request.build.quant = modes.quant;
  ChoiceOf(task, role.role).quant = modes.quant;
  for (std::string& note : modes.notes) {
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  return {};
}

}  // namespace

bool ResolvedRole::IsLargeEp(const ParallelLayout& layout) const {
  if (!experts.coverage) return false;
  const MoeCommBackends chosen = SelectMoeComm(*experts.coverage, request.backend, layout);
  return chosen.context && (!experts.needs.generation || chosen.generation);
}

Result<Speculation> ResolveSpeculation(std::optional<std::int64_t> nextn,
                                       std::optional<double> accepted, const ModelConfig& model) {
  Speculation speculation;
  speculation.nextn = nextn.value_or(model.draft_layers);
  if (speculation.nextn < 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("nextn is {}: expected 0 or more draft tokens", speculation.nextn));
  }
  if (speculation.nextn == 0) return speculation;
  if (!accepted) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("nextn {}{} needs nextn_accepted: how many of {} draft tokens are "
                            "accepted per step",
                            nextn ? "" : "auto = ", speculation.nextn, speculation.nextn));
  }
  if (!std::isfinite(*accepted) || *accepted < 0 ||
      *accepted > static_cast<double>(speculation.nextn)) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("nextn_accepted is {}: expected 0 to {}",
                                                         *accepted, speculation.nextn));
  }
  speculation.accepted = *accepted;
  return speculation;
}

Result<ResolvedTask> ResolveTask(Task given, Workbench& bench) {
  ResolvedTask out;
  out.task = std::move(given);
  Task& task = out.task;
  if (task.mode == ServingMode::kDisaggregated) IC_RETURN_IF_ERROR(CheckSettingsOfPools(task));
  IC_RETURN_IF_ERROR(CheckNames(task));
  IC_RETURN_IF_ERROR(CheckBudget(task));
  if (task.epd.enabled) {
    if (task.mode == ServingMode::kAfd) {
      return Fail(ErrorKind::kInvalidArgument,
                  "an encoder pool goes with aggregated or disaggregated serving");
    }
    task.encoder_data_parallel = false;
  }
  IC_ASSIGN(const std::shared_ptr<const ModelConfig> model, bench.Model(task.primary().model));
  out.notes = model->notes;
  IC_ASSIGN(out.speculation, ResolveSpeculation(task.nextn, task.nextn_accepted, *model));
  task.nextn = out.speculation.nextn;
  if (out.speculation.nextn > 0) task.nextn_accepted = out.speculation.accepted;

  const std::vector<WorkerRole> kinds = RolesOf(task.mode);
  const bool wideep = std::ranges::any_of(
      kinds, [&](WorkerRole role) { return ChoiceOf(task, role).enable_wideep; });
  if (!task.moe_backend && wideep) task.moe_backend = "deepep_moe";
  for (const WorkerRole kind : kinds) {
    IC_ASSIGN(ResolvedRole role, OpenRole(task, kind, model, bench));
    IC_RETURN_IF_ERROR(MeasureExperts(role));
    out.roles.push_back(std::move(role));
  }

  const bool large_family = model->IsMoe() && (model->family_id() == ModelFamily::kDeepseekV32 ||
                                               model->family_id() == ModelFamily::kDeepseekV4);
  const bool pipelines = large_family && task.moe_backend != "megamoe" &&
                         task.total_gpus.value_or(0) >= 16 &&
                         std::ranges::all_of(out.roles, [](const ResolvedRole& role) {
                           return role.database->system().IsBlackwell();
                         });
  bool large_ep = false;
  for (ResolvedRole& role : out.roles) {
    IC_ASSIGN(const bool large, FillSearchSpace(task, role, pipelines));
    large_ep = large_ep || large;
  }
  if (task.mode == ServingMode::kDisaggregated || task.epd.enabled) {
    FillReplicaRules(task, large_ep);
  }
  out.replica = RulesOf(task.disagg);

  for (ResolvedRole& role : out.roles) {
    IC_RETURN_IF_ERROR(SettleModes(task, role, out.notes));
    IC_ASSIGN(role.workers, bench.Workers(role.request, model, *role.database, role.experts));
  }
  IC_RETURN_IF_ERROR(CheckMegaMoe(task, out.roles));
  return out;
}

}  // namespace infercast
