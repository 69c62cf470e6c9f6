// Memory of one GPU of a worker: weights, activations, KV cache, communication buffers, runtime.
//
// Method: weights are the sum of the prefill operators' resident bytes over the pipeline stages;
// activations are a coefficient per model family and tensor-parallel size times the widest hidden
// state, with a floor per backend; communication and runtime are reserves of the system. GiB =
// 2^30.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"
#include "hardware/system_spec.h"
#include "models/model_facts.h"

namespace infercast {

inline constexpr double kGiB = 1073741824.0;

// What a backend's memory manager reserves and how its memory fraction is meant.
struct BackendMemory {
  double activation_floor_bytes = 0;
  double activation_overhead = 0;  // added fraction of activations
  double runtime_overhead = 0;     // added fraction of the runtime reserve
  bool fraction_of_free = false;   // of the memory left beside weights; else of all memory
  double reserved_fraction = 0;
  double tolerance = 0.02;
};
const BackendMemory& BackendMemoryOf(Backend backend);

// Default share of memory that the engine may use, when it serves continuously.
double DefaultAggregateFraction(Backend backend, std::string_view version);
// The same for a static batch: SGLang derives it from capacity and layout, the others as above.
double DefaultStaticFraction(Backend backend, std::string_view version,
                             std::optional<std::int64_t> capacity_bytes, std::int64_t tp,
                             std::int64_t pp, std::int64_t dp);

// The per-GPU constants of a built model.
struct MemoryModel {
  ModelFacts facts;
  Backend backend = Backend::kTrtllm;
  double activation_width = 0;      // elements of the hidden state that activations count
  double context_weight_bytes = 0;  // sum over the prefill operators, all pipeline stages
  std::int64_t tp = 1, pp = 1, dp = 1, moe_ep = 1;
  std::int64_t nextn = 0;
};

struct MemoryUsage {  // GiB
  double total = 0;
  double weights = 0;
  double activations = 0;
  double kvcache = 0;
  double nccl = 0;
  double others = 0;
};

// Memory of an encoder on the same GPU (GiB).
struct EncoderMemory {
  double weights = 0;
  double activations = 0;
  double total() const { return weights + activations; }
};

struct MemoryQuery {
  std::int64_t batch = 1;
  std::int64_t beam = 1;
  std::int64_t isl = 1;
  std::int64_t osl = 1;
  std::int64_t num_tokens = 0;  // tokens of one step; 0 = (isl - prefix) * batch
  std::int64_t prefix = 0;
  std::optional<std::int64_t> max_seq_len;  // KV length per sequence; default isl + beam * osl
  std::optional<EncoderMemory> encoder;
  bool mtp_scaling = true;
  std::optional<std::int64_t> mtp_tokens;  // tokens of the step that draft; default all
};

// kInvalidEngineConfig for tensor-parallel sizes without a coefficient, kModelConfig when the
// system lacks the reserves.
Result<MemoryUsage> EstimateMemory(const MemoryModel& model, const SystemSpec& system,
                                   const MemoryQuery& query);

// Memory left for the KV cache, in the unit of the arguments.
double KvBudget(double capacity, double non_kv, double fraction, bool of_free, double reserved = 0,
                double tolerance = 0);

struct MemoryVerdict {
  bool oom = false;     // the parts do not fit at all
  bool kv_oom = false;  // they fit, but the KV cache exceeds its budget
  bool fits() const { return !oom && !kv_oom; }
};
// `fraction` none: the KV budget is not checked.
MemoryVerdict CheckMemory(const MemoryUsage& usage, std::int64_t capacity_bytes,
                          std::optional<double> fraction, const BackendMemory& backend);

}  // namespace infercast
