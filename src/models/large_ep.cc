// Registry of expert communication libraries.
#include "models/large_ep.h"

#include <fmt/format.h>

#include <array>

namespace infercast {

namespace {

constexpr std::array<std::string_view, 2> kTwoPhases = {"dispatch", "combine"};
constexpr std::array<std::string_view, 3> kThreePhases = {"prepare", "dispatch", "combine"};
constexpr std::array<Backend, 2> kSglangVllm = {Backend::kSglang, Backend::kVllm};
constexpr std::array<Backend, 1> kVllm = {Backend::kVllm};
constexpr std::array<Backend, 1> kTrtllm = {Backend::kTrtllm};

// Native SM of the NVLink exchanges: they need multi-node NVLink memory.
constexpr int kBlackwell = 100;

constexpr std::array<MoeCommLibrary, 8> kLibraries = {{
    {"deepep_ht", kSglangVllm, true, false, kTwoPhases, 0},
    {"deepep_ll", kSglangVllm, false, true, kTwoPhases, 0},
    {"deepep_v2_context", kVllm, true, false, kTwoPhases, 0},
    {"deepep_v2_generation", kVllm, false, true, kTwoPhases, 0},
    {"trtllm_deepep_ht", kTrtllm, true, false, kTwoPhases, 0},
    {"trtllm_deepep_ll", kTrtllm, false, true, kTwoPhases, 0},
    {"nvlink_two_sided", kTrtllm, true, true, kThreePhases, kBlackwell},
    {"nvlink_one_sided", kTrtllm, true, true, kTwoPhases, kBlackwell},
}};

}  // namespace

std::span<const MoeCommLibrary> MoeCommLibraries() { return kLibraries; }

Result<const MoeCommLibrary*> FindMoeCommLibrary(std::string_view name) {
  for (const MoeCommLibrary& library : kLibraries) {
    if (library.name == name) return &library;
  }
  std::string known;
  for (const MoeCommLibrary& library : kLibraries) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", library.name);
  }
  return Fail(
      ErrorKind::kInvalidArgument,
      fmt::format("unknown expert communication library \"{}\"; there are {}", name, known));
}

Result<std::string> MoeCommDtype(std::string_view library, std::string_view comm_phase,
                                 bool context, MoeQuant quant,
                                 const std::optional<std::string>& system) {
  const MoeQuant q = quant == MoeQuant::kFp8Block ? MoeQuant::kFp8 : quant;
  const bool plain = q == MoeQuant::kBfloat16 || q == MoeQuant::kFp8;
  const bool nvfp4 = q == MoeQuant::kNvfp4;
  const bool combine = comm_phase == "combine";
  if (library.starts_with("deepep")) return "default";
  if (library == "trtllm_deepep_ht") {
    if (nvfp4) return "nvfp4";
    if (plain) return "bfloat16";
  } else if (library == "trtllm_deepep_ll") {
    const bool hopper = system == "h100_sxm" || system == "h200_sxm";
    if (plain) return std::string(ToString(q));
    if (nvfp4 && !hopper) return combine ? "fp4" : "nvfp4";
  } else if (library == "nvlink_two_sided" || library == "nvlink_one_sided") {
    if (nvfp4 && !context && combine) return "fp4";
    return std::string(ToString(q));
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} has no format to move {} experts' tokens ({}, {})", library,
                          ToString(quant), context ? "context" : "generation", comm_phase));
}

bool IsFeasible(const MoeCommLibrary& library, std::int64_t topk, std::int64_t moe_tp,
                std::int64_t moe_ep, std::int64_t num_experts, std::optional<int> sm) {
  constexpr std::int64_t kMaxTopk = 8;
  return topk <= kMaxTopk && moe_tp == 1 && moe_ep > 1 && moe_ep <= num_experts &&
         num_experts % moe_ep == 0 && (!sm || *sm >= library.min_sm);
}

}  // namespace infercast
