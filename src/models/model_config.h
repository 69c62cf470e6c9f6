// A checkpoint's configuration as the model builders see it: sizes under their usual names, number
// formats, and a record of what is particular to its family.
//
// Sizes are counts of elements, heads, layers or experts of the whole model (not of one GPU). All
// are non-negative and below 2^31.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/json_tree.h"
#include "models/model_facts.h"
#include "models/quantisation.h"

namespace infercast {

struct FamilyEntry;

// What a family's own parser keeps beside the common sizes; each family derives its record in its
// own file.
struct FamilyRecord {
  virtual ~FamilyRecord() = default;

 protected:
  FamilyRecord() = default;
  FamilyRecord(const FamilyRecord&) = default;
  FamilyRecord& operator=(const FamilyRecord&) = default;
};

struct ModelConfig {
  std::string name;  // as asked for
  std::string architecture;
  const FamilyEntry* family = nullptr;

  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0 when the checkpoint does not say
  std::int64_t head_dim = 0;
  std::int64_t inter_size = 0;  // dense feed-forward width
  std::int64_t vocab = 0;
  std::int64_t context = 0;  // longest sequence
  std::int64_t topk = 0;     // experts a token visits
  std::int64_t num_experts = 0;
  std::int64_t moe_inter_size = 0;
  std::int64_t shared_experts = 0;  // derived; for reports and large expert parallelism
  std::int64_t moe_layers = 0;      // derived; for reports
  std::int64_t draft_layers = 0;    // num_nextn_predict_layers: what a draft depth "auto" means
  bool qk_norm = false;

  CheckpointQuant quant;
  QuantOverrides inferred_quant;     // set after a successful inference
  std::optional<Error> quant_error;  // else why not; a build reports it

  std::shared_ptr<const FamilyRecord> record;
  std::vector<std::string> notes;  // assumptions a user should know of

  std::shared_ptr<const JsonDocument> document;
  JsonView root() const { return document == nullptr ? JsonView() : document->root(); }
  JsonView decoder() const { return JsonView(decoder_node); }  // the language model's part
  const JsonNode* decoder_node = nullptr;

  bool IsMoe() const;
  ModelFamily family_id() const;

  template <typename Record>
  const Record& RecordAs() const {
    return static_cast<const Record&>(*record);
  }
};

// What to do with an architecture that no family lists.
enum class UnlistedArchitecture : std::uint8_t {
  kReject,
  kMap,  // to a generic builder where the usual keys are there, with notes
};

// Parses a whole configuration (quantisation parts merged). kUnsupportedModel for an architecture
// that no family builds, kModelConfig for a missing or malformed key (named).
Result<ModelConfig> ParseModelConfig(std::string name, std::shared_ptr<const JsonDocument> document,
                                     UnlistedArchitecture unlisted = UnlistedArchitecture::kReject);

// --- helpers for the family parsers; each error names the key ---

// The value, or `fallback` when absent or null. kModelConfig when it is not an integer in
// [0, 2^31).
Result<std::int64_t> ReadSize(JsonView source, std::string_view key, std::int64_t fallback = 0);
// The same, but kModelConfig when absent or null.
Result<std::int64_t> RequireSize(JsonView source, std::string_view key);
// kModelConfig unless `value` is an integer in [0, 2^31); `what` names it in the message.
Result<std::int64_t> ToSize(JsonView value, std::string_view what);

}  // namespace infercast
