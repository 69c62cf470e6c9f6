#include "serving/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/ordinals.h"
#include "engine/engine.h"

namespace infercast {

namespace {

std::int64_t LocalImages(std::int64_t batch, const Workload& workload, bool data_parallel,
                         std::int64_t tp) {
  return static_cast<std::int64_t>(
      CeilDiv(static_cast<std::uint64_t>(batch * workload.num_images),
              static_cast<std::uint64_t>(data_parallel ? std::max<std::int64_t>(tp, 1) : 1)));
}

bool Has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

}  // namespace

std::optional<ImageTokens> TokensPerImage(const VisionFacts& vision, const Workload& workload) {
  if (workload.num_images <= 0) return std::nullopt;
  const std::int64_t patch = std::max<std::int64_t>(vision.patch_size, 1);
  const std::int64_t merge = std::max<std::int64_t>(vision.spatial_merge_size, 1);
  if (workload.image_height > 0 && workload.image_width > 0) {
    // Images are resized to whole merge cells; halves round to even.
    const double stride = static_cast<double>(patch * merge);
    const auto snap = [&](std::int64_t side) {
      return std::max(stride, std::nearbyint(static_cast<double>(side) / stride) * stride);
    };
    const double height = snap(workload.image_height);
    const double width = snap(workload.image_width);
    const auto cells = [&](double cell) {
      return static_cast<std::int64_t>(std::floor(height / cell) * std::floor(width / cell));
    };
    return ImageTokens{cells(static_cast<double>(patch)), cells(stride)};
  }
  if (workload.num_image_tokens > 0) {
    return ImageTokens{workload.num_image_tokens * merge * merge, workload.num_image_tokens};
  }
  return std::nullopt;
}

std::int64_t VisualTokens(const std::optional<VisionFacts>& vision, const Workload& workload) {
  if (!vision) return 0;
  const std::optional<ImageTokens> image = TokensPerImage(*vision, workload);
  return image ? image->embeddings * workload.num_images : 0;
}

Result<Breakdown> EncodeImages(std::span<const BoundOperator> ops, const VisionFacts& vision,
                               const Workload& workload, std::int64_t batch, std::int64_t tp) {
  Breakdown out;
  const std::optional<ImageTokens> image = TokensPerImage(vision, workload);
  if (ops.empty() || !image) return out;
  const std::int64_t images = LocalImages(batch, workload, vision.data_parallel, tp);
  // Projector and gather see merged embeddings, the rest sees patches. Operators of one length are
  // priced together, in order of first appearance.
  const auto length = [&](const BoundOperator& op) {
    if (Has(op.name(), "encoder_attention")) return image->patches;
    const bool merged = Has(op.name(), "encoder_projector") || Has(op.name(), "all_gather");
    return merged ? image->embeddings : image->patches;
  };
  std::vector<std::int64_t> lengths;
  for (const BoundOperator& op : ops) {
    if (std::find(lengths.begin(), lengths.end(), length(op)) == lengths.end()) {
      lengths.push_back(length(op));
    }
  }
  for (const std::int64_t s : lengths) {
    if (images * s > std::numeric_limits<std::uint32_t>::max()) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} images of {} tokens are too many for one step", images, s));
    }
    for (const BoundOperator& op : ops) {
      if (length(op) != s) continue;
      const Result<PerfResult> r = op.Query(ContextQuery(op, static_cast<std::uint32_t>(images),
                                                         static_cast<std::uint32_t>(s), 0, 1,
                                                         static_cast<std::uint32_t>(images * s)));
      if (!r) return std::unexpected(r.error());
      out.Add(op.name(), *r);
    }
  }
  return out;
}

std::optional<EncoderMemory> EstimateEncoderMemory(const ModelPlan& plan, const Workload& workload,
                                                   std::int64_t batch) {
  if (!plan.vision || plan.encoder_ops.empty()) return std::nullopt;
  const std::optional<ImageTokens> image = TokensPerImage(*plan.vision, workload);
  if (!image) return std::nullopt;
  const std::int64_t images =
      LocalImages(batch, workload, plan.vision->data_parallel, plan.layout.tp);
  EncoderMemory memory;
  double weights = 0;
  for (const Operator& op : plan.encoder_ops) weights += WeightBytes(op);
  const double patches = static_cast<double>(images * image->patches);
  const double embeddings = static_cast<double>(batch * workload.num_images * image->embeddings);
  double activations = 0;
  if (patches > 0) {
    activations = std::max(2 * patches * static_cast<double>(plan.vision->hidden_size) * 3 +
                               2 * embeddings * static_cast<double>(plan.vision->out_hidden_size) *
                                   static_cast<double>(plan.vision->projector_instances),
                           32.0 * 1048576.0);
  }
  memory.weights = weights / kGiB;
  memory.activations = activations / kGiB;
  return memory;
}

}  // namespace infercast
