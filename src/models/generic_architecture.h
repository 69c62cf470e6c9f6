// Decoders whose architecture no family lists but whose configuration has the usual keys (under one
// of their usual spellings): they are built like the family they resemble, and the model says what
// was assumed.
#pragma once

#include "base/error.h"
#include "models/model_config.h"

namespace infercast {

// What the generic expert decoder has beside the common sizes.
struct GenericMoe : FamilyRecord {
  std::int64_t shared_inter = 0;  // width of the experts that every token visits, together
  std::int64_t dense_layers = 0;  // leading layers without experts
};

// The width of a layer's shared experts together, under the keys that checkpoints use for their
// number and width; 0 when there are none. kModelConfig for a malformed key.
Result<std::int64_t> SharedExpertWidth(JsonView decoder, std::int64_t expert_inter);

// Fills the sizes and the family of `m` (document and architecture are set) and adds notes.
// kUnsupportedModel, naming the keys that are missing, when the model cannot be mapped.
Status MapUnlistedArchitecture(ModelConfig& m);

}  // namespace infercast
