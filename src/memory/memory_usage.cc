#include "memory/memory_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rounding.h"

namespace infercast {

namespace {

constexpr double kMiB = 1048576.0;

constexpr std::array<BackendMemory, 3> kBackends = {{
    {.activation_floor_bytes = 70 * kMiB, .fraction_of_free = true, .reserved_fraction = 0.015},
    {.activation_floor_bytes = 90 * kMiB, .activation_overhead = 0.15, .runtime_overhead = 0.20},
    {.activation_floor_bytes = 70 * kMiB},
}};

// Activation coefficient at tp 1, 2, 4, 8.
using Coefficients = std::array<double, 4>;

const Coefficients& ActivationCoefficients(Backend backend, ModelFamily family) {
  static constexpr Coefficients kLlama = {11, 6.5, 5, 5}, kMoe = {22, 13, 10, 10},
                                kOther = {10, 6, 5, 5};
  static constexpr Coefficients kSglangLlama = {14, 8.5, 6.5, 6.5}, kSglangMoe = {28, 17, 13, 13},
                                kSglangOther = {13, 8, 6.5, 6.5};
  const bool sglang = backend == Backend::kSglang;
  switch (family) {
    case ModelFamily::kLlama:
      return sglang ? kSglangLlama : kLlama;
    case ModelFamily::kMoe:
    case ModelFamily::kGemma4Mix:
    case ModelFamily::kStep3p7:
    case ModelFamily::kDeepseek:
    case ModelFamily::kDeepseekV32:
    case ModelFamily::kDeepseekV4:
    case ModelFamily::kKimiK25:
      return sglang ? kSglangMoe : kMoe;
    case ModelFamily::kKimiK3:
      return sglang ? kSglangMoe : kOther;
    default:
      return sglang ? kSglangOther : kOther;
  }
}

bool HasMoeWorkspace(ModelFamily family) {
  switch (family) {
    case ModelFamily::kGemma4Mix:
    case ModelFamily::kStep3p7:
    case ModelFamily::kDeepseek:
    case ModelFamily::kDeepseekV32:
    case ModelFamily::kDeepseekV4:
    case ModelFamily::kKimiK25:
      return true;
    default:
      return false;
  }
}

}  // namespace

const BackendMemory& BackendMemoryOf(Backend backend) {
  return kBackends[static_cast<std::size_t>(backend)];
}

double DefaultAggregateFraction(Backend backend, std::string_view version) {
  switch (backend) {
    case Backend::kTrtllm:
      return 0.9;
    case Backend::kSglang:
      return 0.88;
    case Backend::kVllm:
      return version.starts_with("0.14") || version.starts_with("0.19") ? 0.90 : 0.92;
  }
  return 0.9;
}

double DefaultStaticFraction(Backend backend, std::string_view version,
                             std::optional<std::int64_t> capacity_bytes, std::int64_t tp,
                             std::int64_t pp, std::int64_t dp) {
  if (backend != Backend::kSglang || !capacity_bytes) {
    return DefaultAggregateFraction(backend, version);
  }
  // Chunk size and CUDA-graph batch by memory tier decide what SGLang keeps free (MiB).
  const double capacity = static_cast<double>(*capacity_bytes) / kMiB;
  double chunk = 16384;
  double graph = 512;
  if (capacity < 20.0 * 1024) {
    chunk = 2048;
    graph = 8;
  } else if (capacity < 35.0 * 1024) {
    chunk = 2048;
    graph = tp < 4 ? 24 : 80;
  } else if (capacity < 60.0 * 1024) {
    chunk = 4096;
    graph = tp < 4 ? 32 : 160;
  } else if (capacity < 160.0 * 1024) {
    chunk = 8192;
    graph = tp < 4 ? 256 : 512;
  }
  double reserve = 512 + 1.5 * chunk + static_cast<double>(tp * pp) / 8 * 1024 + 2 * graph;
  if (dp > 1) {
    reserve += 3 * graph * static_cast<double>(dp);
    if (graph > 300) reserve += 1.5 * graph * static_cast<double>(dp);
  }
  if (capacity > 60.0 * 1024) reserve = std::max(reserve, 10.0 * 1024);
  return RoundDecimal((capacity - reserve) / capacity, 3);
}

Result<MemoryUsage> EstimateMemory(const MemoryModel& model, const SystemSpec& system,
                                   const MemoryQuery& query) {
  const ModelFacts& facts = model.facts;
  const std::int64_t width = std::min<std::int64_t>(model.tp, 8);
  int slot = 0;
  switch (width) {
    case 1:
      slot = 0;
      break;
    case 2:
      slot = 1;
      break;
    case 4:
      slot = 2;
      break;
    case 8:
      slot = 3;
      break;
    default:
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("no memory model for tp {}: use 1, 2, 4, 8 or more", model.tp));
  }
  if (!system.other_mem || !system.nccl_mem.contains(static_cast<int>(width))) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("system '{}' lacks misc.other_mem or misc.nccl_mem[{}], which the "
                            "memory model needs",
                            system.name, width));
  }
  const BackendMemory& backend = BackendMemoryOf(model.backend);

  const double weights = model.context_weight_bytes / static_cast<double>(model.pp);

  const double hidden = model.activation_width;
  const std::int64_t num_tokens =
      query.num_tokens != 0 ? query.num_tokens : (query.isl - query.prefix) * query.batch;
  const double tokens = static_cast<double>(num_tokens);
  double activations =
      2 * tokens * hidden * ActivationCoefficients(model.backend, facts.family)[slot];
  if (HasMoeWorkspace(facts.family) && facts.num_experts > 0) {
    const bool residual_width = model.backend == Backend::kSglang ||
                                facts.family == ModelFamily::kGemma4Mix ||
                                facts.family == ModelFamily::kStep3p7;
    const double workspace = residual_width ? static_cast<double>(facts.hidden_size) : hidden;
    activations += tokens * workspace * static_cast<double>(model.dp) *
                   static_cast<double>(facts.num_experts) * static_cast<double>(facts.topk) /
                   static_cast<double>(model.moe_ep) / 128 * 4;
  }
  activations = std::max(activations, backend.activation_floor_bytes);
  if (query.mtp_scaling && model.nextn > 0) {
    const double drafts = static_cast<double>(model.nextn + 1);
    if (query.mtp_tokens && num_tokens > 0) {
      const double v =
          static_cast<double>(std::min(std::max<std::int64_t>(*query.mtp_tokens, 0), num_tokens));
      activations = activations * (tokens - v + v * drafts) / tokens;
    } else {
      activations = activations * drafts;
    }
  }
  if (backend.activation_overhead > 0)
    activations = activations * (1 + backend.activation_overhead);

  const std::int64_t seq =
      query.max_seq_len ? *query.max_seq_len : query.isl + query.beam * query.osl;
  double kv = static_cast<double>(query.batch) * facts.kv.Bytes(seq);
  double nccl = static_cast<double>(system.nccl_mem.at(static_cast<int>(width)));
  double others = static_cast<double>(*system.other_mem);
  if (backend.runtime_overhead > 0) others = others * (1 + backend.runtime_overhead);

  double weight_bytes = weights;
  if (query.encoder) {
    weight_bytes += query.encoder->weights * kGiB;
    activations += query.encoder->activations * kGiB;
  }
  MemoryUsage usage;
  usage.total = (weight_bytes + activations + kv + nccl + others) / kGiB;
  usage.weights = weight_bytes / kGiB;
  usage.activations = activations / kGiB;
  usage.kvcache = kv / kGiB;
  usage.nccl = nccl / kGiB;
  usage.others = others / kGiB;
  return usage;
}

double KvBudget(double capacity, double non_kv, double fraction, bool of_free, double reserved,
                double tolerance) {
  const double share = (1 - reserved) * (1 - tolerance);
  return of_free ? (capacity - non_kv) * fraction * share : capacity * fraction * share - non_kv;
}

MemoryVerdict CheckMemory(const MemoryUsage& usage, std::int64_t capacity_bytes,
                          std::optional<double> fraction, const BackendMemory& backend) {
  MemoryVerdict verdict;
  const double capacity = static_cast<double>(capacity_bytes) / kGiB;
  verdict.oom = usage.total >= capacity;
  if (fraction && !verdict.oom) {
    const double non_kv = usage.total - usage.kvcache;
    verdict.kv_oom = usage.kvcache > KvBudget(capacity, non_kv, *fraction, backend.fraction_of_free,
                                              backend.reserved_fraction, backend.tolerance);
  }
  return verdict;
}

}  // namespace infercast
