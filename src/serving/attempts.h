// A worker that can be priced, where the deployment as described was not measured: a ladder of
// readings, nearest first, each departure told in a note.
//
// Order: measured tables with the attention formats as resolved, with 16-bit attention over the
// same KV cache, with 16 bits for both; then the same three with estimates where nothing was
// measured. Software versions that were not measured are priced with the current ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/parallel.h"
#include "serving/checkpoint_labels.h"
#include "serving/step_costs.h"
#include "tables/versions.h"

namespace infercast {

struct AttemptRequest {
  std::string system;
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> version;
  std::shared_ptr<const ModelConfig> model;
  QuantOverrides quant;  // first reading
  ParallelLayout layout;
  std::int64_t nextn = 0;
  Behaviour behaviour = Behaviour::kNative;
  bool needs_context = true, needs_decode = true;
  // Sizes that must be priced: tokens of a prompt, of a step; sequences and their length.
  double isl = 1024, budget = 8192, decodes = 1, kv = 1024;
};

struct PricedWorker {
  std::shared_ptr<StepCosts> costs;
  DatabaseMode mode = DatabaseMode::kSilicon;
  std::vector<std::string> notes;
};

// The last attempt's error when none can be priced.
Result<PricedWorker> OpenPriced(const AttemptRequest& request, const SystemsCatalog& systems);

}  // namespace infercast
