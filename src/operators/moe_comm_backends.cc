// Look-ups in the list of all-to-all libraries.
#include "operators/moe_comm_backends.h"

#include <fmt/format.h>

namespace infercast {

const MoeCommBackend* FindMoeCommBackend(std::string_view name) {
  for (const MoeCommBackend& backend : kMoeCommBackends) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

std::string MoeCommBackendNames() {
  std::string names;
  for (const MoeCommBackend& backend : kMoeCommBackends) {
    if (!names.empty()) names += ", ";
    names += backend.name;
  }
  return names;
}

bool IsFeasible(const MoeCommBackend& backend, std::uint32_t topk, std::uint32_t moe_tp,
                std::uint32_t moe_ep, std::uint32_t num_experts, std::optional<int> sm) {
  return topk <= 8 && moe_tp == 1 && moe_ep > 1 && moe_ep <= num_experts &&
         num_experts % moe_ep == 0 && (!sm || *sm >= backend.min_sm);
}

Result<std::string> MoeCommDtype(std::string_view comm_backend, std::string_view system,
                                 std::string_view model_quant, MoeCommPhase phase,
                                 InferencePhase inference_phase) {
  std::string_view quant = model_quant;
  if (quant == "none") quant = "bfloat16";
  if (quant == "fp8_block") quant = "fp8";
  const bool plain = quant == "bfloat16" || quant == "fp8";
  const bool combine = phase == MoeCommPhase::kCombine;

  if (comm_backend.starts_with("deepep")) return std::string("default");
  if (comm_backend == "trtllm_deepep_ht") {
    if (quant == "nvfp4") return std::string("nvfp4");
    if (plain) return std::string("bfloat16");
  } else if (comm_backend == "trtllm_deepep_ll") {
    if (plain) return std::string(quant);
    if (quant == "nvfp4" && system != "h100_sxm" && system != "h200_sxm") {
      return std::string(combine ? "fp4" : "nvfp4");
    }
  } else if (comm_backend.starts_with("nvlink")) {
    const bool low_precision =
        quant == "nvfp4" && combine && inference_phase == InferencePhase::kGeneration;
    return std::string(low_precision ? "fp4" : quant);
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} has no payload format for {} experts on {} (known libraries: {})",
                          comm_backend, model_quant, system, MoeCommBackendNames()));
}

}  // namespace infercast
