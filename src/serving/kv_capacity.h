// How many tokens the KV cache of one GPU holds, before any engine runs: from the built model where
// that is possible, else, when allowed, from nothing but the checkpoint's config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "models/checkpoint.h"
#include "serving/deployment.h"
#include "tables/versions.h"

namespace infercast {

struct KvCapacityRequest {
  std::string model;
  std::string system;
  std::string backend;                 // text: an unknown one is an error of its own kind
  std::optional<std::string> version;  // absent: the model cannot be built (reference)
  ParallelLayout layout;
  QuantOverrides quant;
  double nextn = 0;
  std::int64_t max_num_tokens = 8192;  // token budget of a step: sizes the activations
  std::int64_t max_batch_size = 1;     // has no effect on the figure; kept for the record
  std::string fraction_kind;           // "of_free" (trtllm) or "of_total" (vllm, sglang)
  double fraction = 0.9;
  std::optional<double> capacity_override_bytes;
  std::optional<double> tolerance;  // share held back, in [0, 1)
  double naive_reservation = 0.80;  // share of free memory for KV in the naive estimate
  bool allow_naive = false;
};

struct KvCapacity {
  std::int64_t gpu_capacity_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int64_t bytes_per_token = 0;
  std::int64_t tokens = 0;
  bool naive = false;
  // Bytes beside the KV cache; absent in the naive estimate.
  struct Parts {
    std::int64_t weights = 0, activations = 0, runtime = 0, communication = 0;
  };
  std::optional<Parts> parts;
  struct Adjusted {
    double tolerance = 0;
    std::int64_t kv_bytes = 0;
    std::int64_t tokens = 0;
  };
  std::optional<Adjusted> adjusted;
};

// Kinds: kBadModelConfig (message begins with the name of the field), kIncompatibleMemoryFraction,
// kUnsupportedModel, kInsufficientModelMetadata, kNoKvBudget. Checks run in the order of the
// fields' precedence: backend, fraction kind, fraction, tolerance, reservation, draft depth, then
// the model.
Result<KvCapacity> EstimateKvCapacity(const KvCapacityRequest& request,
                                      const SystemsCatalog& systems,
                                      const CheckpointSearch& checkpoints);

// The same for a model that is built already; only the limits of `request` count (fractions, budget
// of a step, capacity, tolerance).
Result<KvCapacity> KvCapacityOfPlan(const ModelPlan& plan, const SystemSpec& system,
                                    const KvCapacityRequest& request);

// Blocks of `block_size` tokens that fit (with the tolerance applied when one is given).
Result<std::int64_t> EstimateKvBlocks(const KvCapacityRequest& request, double block_size,
                                      const SystemsCatalog& systems,
                                      const CheckpointSearch& checkpoints);

}  // namespace infercast
