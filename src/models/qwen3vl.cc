// Qwen3-VL, dense and MoE: a text decoder with a vision encoder whose tokens lengthen the prompt.
#include <array>
#include <utility>

#include "models/blocks/vision_encoder.h"
#include "models/families.h"

namespace infercast {

namespace {

struct VisionRecord : FamilyRecord {
  std::optional<VisionFacts> vision;
};

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<VisionRecord>();
  IC_ASSIGN(record->vision, ReadVisionConfig(m.root()));
  m.record = std::move(record);
  return {};
}

// A worker that hosts no encoder still gets longer prompts, so the vision facts stay.
Result<FamilyPlan> AddEncoder(const BuildContext& b, FamilyPlan plan) {
  plan.vision = b.model->RecordAs<VisionRecord>().vision;
  if (!plan.vision) return plan;
  plan.vision->data_parallel = b.options->encoder_data_parallel;
  if (b.options->language_only) return plan;
  IC_ASSIGN(plan.encoder_ops,
            BuildVisionEncoder(*plan.vision, b.tp, b.options->encoder_data_parallel));
  return plan;
}

Result<FamilyPlan> BuildDense(const BuildContext& b) {
  IC_ASSIGN(FamilyPlan plan, BuildLlama(b));
  return AddEncoder(b, std::move(plan));
}

Result<FamilyPlan> BuildExperts(const BuildContext& b) {
  IC_ASSIGN(FamilyPlan plan, BuildMoe(b));
  return AddEncoder(b, std::move(plan));
}

constexpr std::array<Architecture, 1> kDense = {{{"Qwen3VLForConditionalGeneration", true}}};
constexpr std::array<Architecture, 1> kExperts = {{{"Qwen3VLMoeForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kQwen3VlFamily = {.id = ModelFamily::kQwen3Vl,
                                    .architectures = kDense,
                                    .is_moe = nullptr,
                                    .is_moe_always = false,
                                    .context_parallel = true,
                                    .parse = Parse,
                                    .build = BuildDense};

const FamilyEntry kQwen3VlMoeFamily = {.id = ModelFamily::kQwen3VlMoe,
                                       .architectures = kExperts,
                                       .is_moe = nullptr,
                                       .is_moe_always = true,
                                       .context_parallel = true,
                                       .parse = Parse,
                                       .build = BuildExperts};

}  // namespace infercast
