// Families whose checkpoints are recognised but whose operator lists are not built yet.
#include <array>

#include "models/families.h"

namespace infercast {

namespace {

constexpr std::array<Architecture, 2> kDeepseek = {
    {{"DeepSeekForCausalLM"}, {"DeepseekV3ForCausalLM"}}};
constexpr std::array<Architecture, 1> kKimi25 = {{{"KimiK25ForConditionalGeneration", true}}};
constexpr std::array<Architecture, 2> kV32 = {
    {{"DeepseekV32ForCausalLM"}, {"GlmMoeDsaForCausalLM"}}};

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

const FamilyEntry kDeepseekFamily = Pending(ModelFamily::kDeepseek, kDeepseek, true);
const FamilyEntry kKimiK25Family = Pending(ModelFamily::kKimiK25, kKimi25, true);
const FamilyEntry kDeepseekV32Family = Pending(ModelFamily::kDeepseekV32, kV32, true);

}  // namespace infercast
