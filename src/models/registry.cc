// The families, one line each.
#include <array>

#include "models/families.h"

namespace infercast {

namespace {

constexpr std::array<const FamilyEntry*, 17> kFamilies = {
    &kLlamaFamily,       &kQwen3VlFamily,    &kGptFamily,       &kNemotronNasFamily,
    &kMoeFamily,         &kQwen3VlMoeFamily, &kHybridMoeFamily, &kStep3p7Family,
    &kGemma4MixFamily,   &kMinimaxM3Family,  &kDeepseekFamily,  &kKimiK25Family,
    &kDeepseekV32Family, &kDeepseekV4Family, &kKimiK3Family,    &kQwen35Family,
    &kNemotronHFamily,
};

}  // namespace

std::span<const FamilyEntry* const> AllFamilies() { return kFamilies; }

const FamilyEntry* FindFamily(std::string_view architecture) {
  for (const FamilyEntry* family : kFamilies) {
    for (const Architecture& a : family->architectures) {
      if (a.name == architecture) return family;
    }
  }
  return nullptr;
}

}  // namespace infercast
