// Families whose checkpoints are recognised but whose operator lists are not built yet.
#include <array>

#include "models/families.h"

namespace infercast {

namespace {

constexpr std::array<Architecture, 1> kQwen3Vl = {{{"Qwen3VLForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kNas = {{{"DeciLMForCausalLM"}, {"NemotronForCausalLM"}}};
constexpr std::array<Architecture, 5> kMoe = {{{"MixtralForCausalLM"},
                                               {"GptOssForCausalLM"},
                                               {"Qwen2MoeForCausalLM"},
                                               {"Qwen3MoeForCausalLM"},
                                               {"MiniMaxM2ForCausalLM"}}};
constexpr std::array<Architecture, 1> kQwen3VlMoe = {
    {{"Qwen3VLMoeForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kHybrid = {
    {{"MiMoV2FlashForCausalLM"}, {"Llama4ForConditionalGeneration", true}}};
constexpr std::array<Architecture, 4> kStep = {{{"Step3p7ForConditionalGeneration", true},
                                                {"Step3p7FlashForCausalLM", true},
                                                {"Step3p5ForCausalLM"},
                                                {"Step3p5FlashForCausalLM"}}};
constexpr std::array<Architecture, 1> kGemma4 = {{{"Gemma4ForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kM3 = {
    {{"MiniMaxM3ForCausalLM"}, {"MiniMaxM3SparseForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kDeepseek = {
    {{"DeepSeekForCausalLM"}, {"DeepseekV3ForCausalLM"}}};
constexpr std::array<Architecture, 1> kKimi25 = {{{"KimiK25ForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kV32 = {
    {{"DeepseekV32ForCausalLM"}, {"GlmMoeDsaForCausalLM"}}};
constexpr std::array<Architecture, 1> kV4 = {{{"DeepseekV4ForCausalLM"}}};
constexpr std::array<Architecture, 1> kKimi3 = {{{"KimiK3ForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kQwen35 = {
    {{"Qwen3_5ForConditionalGeneration", true}, {"Qwen3_5MoeForConditionalGeneration", true}}};
constexpr std::array<Architecture, 1> kNemotronH = {{{"NemotronHForCausalLM"}}};

constexpr FamilyEntry Pending(ModelFamily id, std::span<const Architecture> architectures,
                              bool context_parallel = false) {
  return {.id = id,
          .architectures = architectures,
          .is_moe = [](const ModelConfig& m) { return m.num_experts > 0; },
          .is_moe_always = false,
          .context_parallel = context_parallel,
          .parse = nullptr,
          .build = nullptr};
}

}  // namespace

const FamilyEntry kQwen3VlFamily = Pending(ModelFamily::kQwen3Vl, kQwen3Vl, true);
const FamilyEntry kGptFamily = Pending(ModelFamily::kGpt, {}, true);
const FamilyEntry kNemotronNasFamily = Pending(ModelFamily::kNemotronNas, kNas);
const FamilyEntry kMoeFamily = Pending(ModelFamily::kMoe, kMoe, true);
const FamilyEntry kQwen3VlMoeFamily = Pending(ModelFamily::kQwen3VlMoe, kQwen3VlMoe, true);
const FamilyEntry kHybridMoeFamily = Pending(ModelFamily::kHybridMoe, kHybrid, true);
const FamilyEntry kStep3p7Family = Pending(ModelFamily::kStep3p7, kStep, true);
const FamilyEntry kGemma4MixFamily = Pending(ModelFamily::kGemma4Mix, kGemma4, true);
const FamilyEntry kMinimaxM3Family = Pending(ModelFamily::kMinimaxM3, kM3);
const FamilyEntry kDeepseekFamily = Pending(ModelFamily::kDeepseek, kDeepseek, true);
const FamilyEntry kKimiK25Family = Pending(ModelFamily::kKimiK25, kKimi25, true);
const FamilyEntry kDeepseekV32Family = Pending(ModelFamily::kDeepseekV32, kV32, true);
const FamilyEntry kDeepseekV4Family = Pending(ModelFamily::kDeepseekV4, kV4, true);
const FamilyEntry kKimiK3Family = Pending(ModelFamily::kKimiK3, kKimi3);
const FamilyEntry kQwen35Family = Pending(ModelFamily::kQwen35, kQwen35);
const FamilyEntry kNemotronHFamily = Pending(ModelFamily::kNemotronH, kNemotronH);

}  // namespace infercast
