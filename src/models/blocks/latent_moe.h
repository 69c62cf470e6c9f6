// What the DeepSeek families share around their latent attention: routed experts beside one shared
// expert in every layer, and the KV of a latent with its rotary part.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "models/blocks/moe.h"
#include "models/family.h"
#include "models/op_list.h"

namespace infercast {

// Fused block: in prefill shared and routed experts follow each other, in decode they overlap. The
// shared expert is sharded `shared_shards` ways; experts' tokens know of `cp` context ranks.
void AddSharedAndRoutedExperts(OpList& ops, double layers, GemmQuant shared_quant,
                               std::int64_t shared_shards);

// Large expert parallelism with one shared expert; a phase that has no communication library keeps
// a flat fused block.
Status AddLargeEpExperts(OpList& ops, double layers, GemmQuant shared_quant);

// One latent and one rotary key a token and layer, whole on every GPU.
KvLayout LatentKv(const BuildContext& b, std::int64_t latent, std::int64_t rotary);

}  // namespace infercast
