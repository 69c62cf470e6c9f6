// The vision encoder that runs before a prefill: image sizes to token counts, the encoder's
// latency, and its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "engine/breakdown.h"
#include "memory/memory_usage.h"
#include "models/model_plan.h"
#include "operators/bound_operator.h"
#include "serving/workload.h"

namespace infercast {

// Tokens of one image: patches that the encoder sees, and embeddings that the language model gets.
struct ImageTokens {
  std::int64_t patches = 0;
  std::int64_t embeddings = 0;
};

// None when the workload has no images. Height and width win over a given token count.
std::optional<ImageTokens> TokensPerImage(const VisionFacts& vision, const Workload& workload);

// Embeddings that one request adds to its input, also on workers that host no encoder.
std::int64_t VisualTokens(const std::optional<VisionFacts>& vision, const Workload& workload);

// Cost of encoding the images of `batch` requests on one GPU, by operator name.
Result<Breakdown> EncodeImages(std::span<const BoundOperator> ops, const VisionFacts& vision,
                               const Workload& workload, std::int64_t batch, std::int64_t tp);

// GiB on one GPU; none when there is nothing to encode.
std::optional<EncoderMemory> EstimateEncoderMemory(const ModelPlan& plan, const Workload& workload,
                                                   std::int64_t batch);

}  // namespace infercast
