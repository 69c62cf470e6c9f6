// Number formats of a model: what a checkpoint declares, what follows from it, and what a build
// finally uses. A checkpoint names an algorithm (fp8, nvfp4, mxfp4, compressed-tensors ...); the
// modes of its GEMMs, experts, KV cache and attention are inferred from that unless the caller
// gives them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/json_tree.h"

namespace infercast {

// The modes of a build.
struct QuantModes {
  GemmQuant gemm = GemmQuant::kBfloat16;
  MoeQuant moe = MoeQuant::kBfloat16;
  KvQuant kv = KvQuant::kBfloat16;
  FmhaQuant fmha = FmhaQuant::kBfloat16;
  CommQuant comm = CommQuant::kHalf;

  bool operator==(const QuantModes&) const = default;
};

// Modes that are set; absent ones are inferred (comm: half).
struct QuantOverrides {
  std::optional<GemmQuant> gemm = std::nullopt;
  std::optional<MoeQuant> moe = std::nullopt;
  std::optional<KvQuant> kv = std::nullopt;
  std::optional<FmhaQuant> fmha = std::nullopt;
  std::optional<CommQuant> comm = std::nullopt;
  // Whether the GEMM mode counts as chosen by the user, which switches off a checkpoint's own split
  // into quantised and excluded layers. Absent: it does when `gemm` is set.
  std::optional<bool> gemm_explicit = std::nullopt;

  bool operator==(const QuantOverrides&) const = default;
};

// What a checkpoint says about its number formats.
struct CheckpointQuant {
  std::optional<std::string> algorithm;     // normalised, e.g. "fp8_block", "mixed_precision"
  std::optional<std::string> kv_algorithm;  // "fp8", "bfloat16" or as spelled
  std::optional<bool> dynamic;              // activations scaled at run time
};

// `root` is the whole configuration with its quantisation parts merged (checkpoint.h).
CheckpointQuant ReadCheckpointQuant(JsonView root);

// The modes a checkpoint implies; absent where it says nothing. kInvalidArgument for an algorithm
// that no mode stands for (awq, gptq ...), kModelConfig for a compressed-tensors format that the
// target has no mode for.
Result<QuantOverrides> InferQuantModes(JsonView root, const CheckpointQuant& quant,
                                       std::string_view architecture);

// Fills a build's modes: the caller's, then the inferred ones, then bfloat16, with the backend
// rules that demote an inferred fp8 attention or promote an inferred expert format.
QuantModes ResolveQuantModes(const QuantOverrides& given, const QuantOverrides& inferred,
                             std::string_view architecture, Backend backend);

// Name patterns of modules that the checkpoint leaves unquantised, in the order of the lists that
// hold them.
std::vector<std::string> ExclusionPatterns(JsonView root);

// Which attention projections the patterns exclude.
struct ProjectionExclusions {
  bool q = false;
  bool kv = false;
  bool o = false;
  bool indexer = false;

  bool any() const { return q || kv || o || indexer; }
  bool operator==(const ProjectionExclusions&) const = default;
};
ProjectionExclusions ExcludedProjections(const std::vector<std::string>& patterns);

// Algorithm of one entry of a per-layer list ("quantized_layers"), normalised: e4m3 and e5m2 are
// fp8, fp4 is nvfp4. Empty when it names none.
std::string LayerAlgorithm(JsonView entry);

// A module path of routed experts (not of the shared one), in any letter case.
bool IsRoutedExpertTarget(std::string_view path);

// Routed experts hold nvfp4 weights according to the per-layer lists.
bool HasNvfp4RoutedExperts(JsonView root);

}  // namespace infercast
