// Every family's entry, and the decoders that multimodal families borrow from text ones.
#pragma once

#include <optional>

#include "models/family.h"

namespace infercast {

extern const FamilyEntry kLlamaFamily;
extern const FamilyEntry kQwen3VlFamily;
extern const FamilyEntry kGptFamily;
extern const FamilyEntry kNemotronNasFamily;
extern const FamilyEntry kMoeFamily;
extern const FamilyEntry kQwen3VlMoeFamily;
extern const FamilyEntry kHybridMoeFamily;
extern const FamilyEntry kStep3p7Family;
extern const FamilyEntry kGemma4MixFamily;
extern const FamilyEntry kMinimaxM3Family;
extern const FamilyEntry kDeepseekFamily;
extern const FamilyEntry kKimiK25Family;
extern const FamilyEntry kDeepseekV32Family;
extern const FamilyEntry kDeepseekV4Family;
extern const FamilyEntry kKimiK3Family;
extern const FamilyEntry kQwen35Family;
extern const FamilyEntry kNemotronHFamily;

// llama.cc: a dense decoder with grouped-query attention and a gated feed-forward.
Result<FamilyPlan> BuildLlama(const BuildContext& b);
// moe.cc: the same attention with routed experts in every layer.
Result<FamilyPlan> BuildMoe(const BuildContext& b);

// KV of grouped-query attention in every layer, KV heads rounded up over the GPUs.
KvLayout GroupedQueryKv(const BuildContext& b);
// Elements a token and layer that context-parallel ranks exchange in prefill; absent without them.
std::optional<double> ContextKvGather(const BuildContext& b, Phase phase, const KvLayout& kv);

}  // namespace infercast
