// Decoders whose layers differ in two ways: attention is global or sliding, the feed-forward is
// dense or routed (MiMo-V2, Llama-4, Step-3.7).
#pragma once

#include <cstdint>
#include <vector>

#include "models/family.h"

namespace infercast {

// Sizes are of the whole model; 0 stands for the model's own.
struct HybridLayers : FamilyRecord {
  std::vector<bool> global_attention;  // by layer
  std::vector<bool> routed;            // by layer: experts instead of a dense feed-forward
  std::int64_t sliding_heads = 0;
  std::int64_t sliding_kv_heads = 0;
  std::int64_t sliding_head_dim = 0;
  std::int64_t sliding_v_dim = 0;
  std::int64_t global_v_dim = 0;
  std::int64_t window = 0;
  std::int64_t dense_inter = 0;
  bool head_gate = false;  // a gate a head scales the attention output

  std::int64_t Count(bool global, bool moe) const;
  std::int64_t GlobalLayers() const { return Count(true, true) + Count(true, false); }
  std::int64_t SlidingLayers() const { return Count(false, true) + Count(false, false); }
};

// Reads a list of 0 and 1 with one entry a layer. kInvalidArgument otherwise; `what` names it.
Result<std::vector<bool>> ReadLayerFlags(JsonView list, std::int64_t layers, std::string_view what);
// Reads `layer_types`, "full_attention" (true) or "sliding_attention"; the entries of `drafts`
// further layers at the end are dropped.
Result<std::vector<bool>> ReadGlobalLayers(JsonView list, std::int64_t layers,
                                           std::int64_t drafts = 0);

// Checks, operator lists and the plain KV rule.
Result<FamilyPlan> BuildHybridLayers(const BuildContext& b, const HybridLayers& layers,
                                     std::int64_t shared_inter = 0);

}  // namespace infercast
