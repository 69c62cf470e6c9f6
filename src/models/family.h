// What a model family is to the rest of the model layer: its architectures, how its part of a
// configuration is read, and how its operator lists are built. One file defines each; the registry
// has one line for each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/model_config.h"
#include "models/model_facts.h"
#include "models/model_plan.h"
#include "models/op_list.h"

namespace infercast {

struct Architecture {
  std::string_view name;  // as in `architectures` of config.json
  bool nested = false;    // the language model is under text_config
};

// A build after the checks that all families share: modes resolved, widths filled in.
struct BuildContext {
  const ModelConfig* model = nullptr;
  const BuildOptions* options = nullptr;
  Backend backend = Backend::kTrtllm;
  QuantModes quant;
  bool gemm_explicit = false;  // the user chose the GEMM mode

  std::int64_t L = 0;  // layers, after an override
  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1;
  std::int64_t moe_tp = 1, moe_ep = 1;  // of dense models: as given, else 1
  std::int64_t nextn = 0;
  double draft_scale = 1.0;  // (nextn + L) / L

  std::int64_t KvHeadsPerGpu() const;  // rounded up
  double KvBytesPerElement() const;
  double CommBytesPerElement() const;
  // "power_law_<alpha>" for the default distribution, any other as given.
  // `suffix` marks a variant of the default distribution.
  std::string Distribution(std::string_view alpha, std::string_view suffix = "") const;
};

// What a family's builder adds to the plan.
struct FamilyPlan {
  std::vector<Operator> context_ops;
  std::vector<Operator> generation_ops;
  std::vector<Operator> encoder_ops;
  std::optional<VisionFacts> vision;
  KvLayout kv;
  std::int64_t activation_hidden_size = 0;  // 0: heads * head size
};

struct FamilyEntry {
  ModelFamily id;
  std::span<const Architecture> architectures;
  // May be null: always (MoE) or never; see is_moe_always.
  bool (*is_moe)(const ModelConfig&);
  bool is_moe_always;
  // Context parallelism on SGLang; no other backend has it.
  bool context_parallel;
  // Reads the family's own keys; null when it has none.
  Status (*parse)(ModelConfig&);
  // Null: known, but not built yet.
  Result<FamilyPlan> (*build)(const BuildContext&);
};

std::span<const FamilyEntry* const> AllFamilies();
const FamilyEntry* FindFamily(std::string_view architecture);

// --- checks that several families share ---

// moe_tp * moe_ep is the attention width and no larger than the experts allow.
Status CheckExpertWidth(const BuildContext& build);
// Block-scaled fp8 experts: a shard is a multiple of the checkpoint's block width.
Status CheckExpertBlockAlignment(const BuildContext& build);
// The family has no draft tokens.
Status CheckNoDraft(const BuildContext& build);
// Large expert parallelism is not modelled for this family.
Status CheckNoLargeExpertParallelism(const BuildContext& build);

}  // namespace infercast
