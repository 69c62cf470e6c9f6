// Communication libraries of large expert parallelism: which serve a backend and phase, in which
// number format they move tokens, and which one a deployment gets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"

namespace infercast {

struct MoeCommLibrary {
  std::string_view name;
  std::span<const Backend> backends;
  bool context = false;                           // serves prefill
  bool generation = false;                        // serves decode
  std::span<const std::string_view> comm_phases;  // in order; the last is "combine"
  int min_sm = 0;
};

// In order of preference.
std::span<const MoeCommLibrary> MoeCommLibraries();
// kInvalidArgument when there is none of that name.
Result<const MoeCommLibrary*> FindMoeCommLibrary(std::string_view name);

// Format in which `library` moves tokens in a communication phase ("dispatch" or "combine").
// kInvalidArgument when it has none for these expert weights.
Result<std::string> MoeCommDtype(std::string_view library, std::string_view comm_phase,
                                 bool context, MoeQuant quant,
                                 const std::optional<std::string>& system);

// Whether the library can serve this shape at all. `sm` is the GPU's architecture if known.
bool IsFeasible(const MoeCommLibrary& library, std::int64_t topk, std::int64_t moe_tp,
                std::int64_t moe_ep, std::int64_t num_experts, std::optional<int> sm);

}  // namespace infercast
