// What must hold before a task is evaluated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/near_names.h"
#include "search/task_resolution.h"
#include "tables/measured_support.h"

namespace infercast {

namespace {

Status Invalid(std::string message) {
  return Fail(ErrorKind::kInvalidArgument, std::move(message));
}

bool IsPositive(double v) { return std::isfinite(v) && v > 0; }

Status CheckKernel(const Task& task) {
  constexpr std::array<std::string_view, 6> kKernels = {"fa3",        "triton", "trtllm_mha",
                                                        "flashinfer", "fla",    "default"};
  if (!task.attention_backend ||
      std::ranges::find(kKernels, *task.attention_backend) != kKernels.end()) {
    return {};
  }
  const std::vector<std::string> names(kKernels.begin(), kKernels.end());
  return Invalid(fmt::format("attention_backend is '{}'{}; known: {}", *task.attention_backend,
                             DidYouMean(*task.attention_backend, names), JoinNames(names)));
}

Status CheckEncoderPool(const Task& task) {
  const EncoderPoolChoice& epd = task.epd;
  if (!epd.enabled) {
    const DisaggregatedChoice defaults;
    const bool stray = !epd.tp.empty() || !epd.batch.empty() || epd.system || epd.max_workers ||
                       epd.latency_correction != 1.0 ||
                       task.disagg.encoder_degradation != defaults.encoder_degradation;
    if (stray) return Invalid("settings of encode workers need enable_epd");
    return {};
  }
  for (const auto* list : {&epd.tp, &epd.batch}) {
    if (std::ranges::any_of(*list, [](std::int64_t v) { return v < 1; })) {
      return Invalid("encoder candidates must be positive");
    }
  }
  if (std::ranges::any_of(epd.batch, [](std::int64_t v) { return v > 8; })) {
    return Invalid("an encode worker takes at most 8 requests at once");
  }
  if (epd.max_workers && *epd.max_workers < 1) {
    return Invalid("max_encoder_workers must be positive");
  }
  if (!IsPositive(epd.latency_correction) || !IsPositive(task.disagg.encoder_degradation)) {
    return Invalid("corrections of encode workers must be positive");
  }
  return {};
}

Status CheckTargets(const Task& task) {
  const auto positive = [](const char* name, double v) -> Status {
    if (IsPositive(v)) return {};
    return Invalid(fmt::format("{} is {}: expected a positive number of ms", name, v));
  };
  IC_RETURN_IF_ERROR(positive("ttft", task.ttft));
  IC_RETURN_IF_ERROR(positive("tpot", task.tpot));
  if (task.request_latency) {
    IC_RETURN_IF_ERROR(positive("request_latency", *task.request_latency));
  }
  if (task.memory_fraction && !(IsPositive(*task.memory_fraction) && *task.memory_fraction <= 1)) {
    return Invalid(fmt::format("free_gpu_memory_fraction is {}: expected more than 0, at most 1",
                               *task.memory_fraction));
  }
  return {};
}

Status CheckAfd(const Task& task, const ResolvedRole& role) {
  if (!task.gpu_budget()) return Invalid("AFD needs total_gpus");
  if (task.afd.max_a_batch < 32) return Invalid("afd_max_a_batch_size must be at least 32");
  if (task.afd.max_candidates < 1) return Invalid("afd_max_candidates must be at least 1");
  if (role.model->family_id() == ModelFamily::kDeepseek && role.request.backend == Backend::kVllm) {
    return Fail(ErrorKind::kUnsupportedModel, "AFD of DeepSeek models is not modelled on vllm");
  }
  return {};
}

// SGLang's latent attention under wide expert parallelism was only measured with these kernels.
Status CheckWideKernel(const Task& task, const ResolvedRole& role) {
  if (!task.attention_backend || role.request.backend != Backend::kSglang) return {};
  const bool reached = std::ranges::any_of(role.layouts, [&](const ParallelLayout& layout) {
    return role.IsLargeEp(layout) &&
           AttentionTablesOf(role.model->family_id(), Backend::kSglang, true)
               .context.starts_with("wideep");
  });
  const std::string& kernel = *task.attention_backend;
  if (!reached || kernel == "default" || kernel == "flashinfer" || kernel == "fa3") return {};
  return Invalid(
      fmt::format("attention_backend {} does not serve wide expert parallelism on "
                  "sglang; known: default, flashinfer, fa3",
                  kernel));
}

// Modes measured for one kind of operator; nothing known when it has no list.
Result<std::vector<std::string>> Measured(const Database& db, std::string_view key) {
  Result<std::vector<std::string>> modes = SupportedQuantModes(db.store(), key);
  if (!modes && modes.error().kind == ErrorKind::kUnknownName) return std::vector<std::string>{};
  return modes;
}

Status CheckRate(const Database& db, ComputeDtype dtype) {
  if (dtype == ComputeDtype::kNone) return {};
  const Result<double> rate = db.system().TensorCoreFlops(dtype);
  if (!rate) return std::unexpected(rate.error());
  return {};
}

Status NotMeasured(const Database& db, std::string_view key, std::string_view mode,
                   const std::vector<std::string>& measured) {
  const DatabaseIdentity& id = db.store().identity();
  return Invalid(
      fmt::format("number format '{}' of {} was not measured for {} on {} {}; measured: "
                  "{}",
                  mode, key, id.system, ToString(id.backend), id.version, JoinNames(measured)));
}

template <NamedEnum E>
bool MayBorrow(const Database& db, E mode, const std::vector<std::string>& measured) {
  if (db.mode() == DatabaseMode::kSilicon) return false;
  const QuantProfile own = Profile(mode);
  for (const std::string& name : measured) {
    const std::optional<E> other = ParseEnum<E>(name);
    if (!other) continue;
    const QuantProfile p = Profile(*other);
    const bool same = p.memory == own.memory && p.compute == own.compute;
    if (same ? db.policy().xquant : db.policy().xprofile) return true;
  }
  return false;
}

template <NamedEnum E>
Status CheckMode(const Database& db, std::string_view key, E mode, bool may_borrow) {
  if (!std::is_same_v<E, KvQuant>) IC_RETURN_IF_ERROR(CheckRate(db, Profile(mode).dtype));
  IC_ASSIGN(const std::vector<std::string> measured, Measured(db, key));
  const std::string_view name = ToString(mode);
  const auto lists = [&](std::string_view m) {
    return std::ranges::find(measured, m) != measured.end();
  };
  if (measured.empty() || lists(name)) return {};
  if (name == "w4a16_mxfp4_cutlass" && lists("w4a16_mxfp4")) return {};
  if (may_borrow && MayBorrow(db, mode, measured)) return {};
  return NotMeasured(db, key, name, measured);
}

Status CheckModes(const ResolvedRole& role) {
  const Database& db = *role.database;
  if (role.model->family_id() == ModelFamily::kDeepseekV4 && db.mode() != DatabaseMode::kSilicon) {
    return {};
  }
  const QuantOverrides& q = role.request.build.quant;
  IC_RETURN_IF_ERROR(CheckMode(db, "gemm", *q.gemm, *q.gemm != GemmQuant::kFp8Static));
  if (role.model->IsMoe()) IC_RETURN_IF_ERROR(CheckMode(db, "moe", *q.moe, true));
  bool fused = role.layouts.empty();
  bool large = false;
  for (const ParallelLayout& layout : role.layouts) (role.IsLargeEp(layout) ? large : fused) = true;
  // The first kind of attention of which anything is known decides.
  const auto attention = [&](bool context) -> Status {
    for (const bool regime : {false, true}) {
      if (!(regime ? large : fused)) continue;
      const AttentionTables tables =
          AttentionTablesOf(role.model->family_id(), role.request.backend, regime);
      const std::string_view key = context ? tables.context : tables.generation;
      IC_ASSIGN(const std::vector<std::string> measured, Measured(db, key));
      if (measured.empty()) continue;
      return context ? CheckMode(db, key, *q.fmha, false) : CheckMode(db, key, *q.kv, false);
    }
    return {};
  };
  if (role.role != WorkerRole::kDecode) IC_RETURN_IF_ERROR(attention(true));
  if (role.role != WorkerRole::kPrefill) IC_RETURN_IF_ERROR(attention(false));
  return {};
}

}  // namespace

Status ValidateTask(const ResolvedTask& resolved) {
  const Task& task = resolved.task;
  IC_RETURN_IF_ERROR(CheckKernel(task));
  if (task.expert_slots && *task.expert_slots < 1) {
    return Invalid("wideep_num_slots must be positive");
  }
  IC_RETURN_IF_ERROR(CheckTargets(task));
  if (!IsPositive(task.disagg.prefill_degradation) || !IsPositive(task.disagg.decode_degradation)) {
    return Invalid(
        "rate_match_prefill_degradation and rate_match_decode_degradation must be "
        "positive");
  }
  IC_RETURN_IF_ERROR(CheckEncoderPool(task));
  if (task.mode == ServingMode::kAfd) IC_RETURN_IF_ERROR(CheckAfd(task, resolved.primary()));
  for (const ResolvedRole& role : resolved.roles) {
    IC_RETURN_IF_ERROR(CheckWideKernel(task, role));
  }
  for (const ResolvedRole& role : resolved.roles) IC_RETURN_IF_ERROR(CheckModes(role));
  return {};
}

}  // namespace infercast
