// The all-to-all libraries that move tokens to their experts and back, and what each can do.
//
// Their names are wire values and table keys. This is the one list of them: model builders
// enumerate it, the all-to-all operator validates against it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"

namespace infercast {

// What an exchange is for, in the order a layer runs them.
enum class MoeCommPhase : std::uint8_t { kPrepare, kDispatch, kCombine };
template <>
struct EnumNames<MoeCommPhase> {
  static constexpr std::string_view kType = "all-to-all phase";
  static constexpr std::array<std::string_view, 3> kNames = {"prepare", "dispatch", "combine"};
};

// The part of a request an engine's operator belongs to.
enum class InferencePhase : std::uint8_t { kContext, kGeneration };
template <>
struct EnumNames<InferencePhase> {
  static constexpr std::string_view kType = "inference phase";
  static constexpr std::array<std::string_view, 2> kNames = {"context", "generation"};
};

struct MoeCommBackend {
  std::string_view name;
  bool has_prepare = false;  // a prepare phase besides dispatch and combine
  bool sglang = false, vllm = false, trtllm = false;
  bool context = false, generation = false;
  int min_sm = 0;
  // An unmeasured multi-node topology may be answered by the single-node measurement.
  bool single_node_donor = false;

  bool Has(MoeCommPhase phase) const { return phase != MoeCommPhase::kPrepare || has_prepare; }
  bool Serves(InferencePhase phase) const {
    return phase == InferencePhase::kContext ? context : generation;
  }
  bool Serves(Backend backend) const {
    switch (backend) {
      case Backend::kTrtllm:
        return trtllm;
      case Backend::kSglang:
        return sglang;
      case Backend::kVllm:
        return vllm;
    }
    return false;
  }
};

// In the order in which they are enumerated and named in messages.
inline constexpr std::array<MoeCommBackend, 8> kMoeCommBackends = {{
    {.name = "deepep_ht", .sglang = true, .vllm = true, .context = true, .single_node_donor = true},
    {.name = "deepep_ll",
     .sglang = true,
     .vllm = true,
     .generation = true,
     .single_node_donor = true},
    {.name = "deepep_v2_context", .vllm = true, .context = true},
    {.name = "deepep_v2_generation", .vllm = true, .generation = true},
    {.name = "trtllm_deepep_ht", .trtllm = true, .context = true, .single_node_donor = true},
    {.name = "trtllm_deepep_ll", .trtllm = true, .generation = true, .single_node_donor = true},
    {.name = "nvlink_two_sided",
     .has_prepare = true,
     .trtllm = true,
     .context = true,
     .generation = true,
     .min_sm = 100},
    {.name = "nvlink_one_sided",
     .trtllm = true,
     .context = true,
     .generation = true,
     .min_sm = 100},
}};

// The entry of that exact name, or null.
const MoeCommBackend* FindMoeCommBackend(std::string_view name);

// Names of all entries, for messages.
std::string MoeCommBackendNames();

// Whether a layout can use the library at all. `sm` none: the GPU generation is not known.
bool IsFeasible(const MoeCommBackend& backend, std::uint32_t topk, std::uint32_t moe_tp,
                std::uint32_t moe_ep, std::uint32_t num_experts, std::optional<int> sm);

// Payload number format under which an exchange was measured. `model_quant`: the experts' number
// format as spelled in configurations. kInvalidArgument for a combination that has none.
Result<std::string> MoeCommDtype(std::string_view comm_backend, std::string_view system,
                                 std::string_view model_quant, MoeCommPhase phase,
                                 InferencePhase inference_phase);

}  // namespace infercast
