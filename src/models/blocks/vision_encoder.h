// A vision transformer with its projector into the language model's width.
#pragma once

#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/model_plan.h"

namespace infercast {

// Reads `vision_config`; absent when the checkpoint has none.
Result<std::optional<VisionFacts>> ReadVisionConfig(JsonView root);

// The encoder's operators over `tp` GPUs: the images spread over the group (data parallel) or every
// image sharded by tensor parallelism. kInvalidArgument when heads or widths do not divide.
Result<std::vector<Operator>> BuildVisionEncoder(const VisionFacts& vision, std::int64_t tp,
                                                 bool data_parallel);

}  // namespace infercast
