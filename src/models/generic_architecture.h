// Decoders whose architecture no family lists but whose configuration has the usual keys (under one
// of their usual spellings): they are built like the family they resemble, and the model says what
// was assumed.
#pragma once

#include "base/error.h"
#include "models/model_config.h"

namespace infercast {

// Fills the sizes and the family of `m` (document and architecture are set) and adds notes.
// kUnsupportedModel, naming the keys that are missing, when the model cannot be mapped.
Status MapUnlistedArchitecture(ModelConfig& m);

}  // namespace infercast
