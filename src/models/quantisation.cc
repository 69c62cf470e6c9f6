// Inference of number formats from what checkpoints of the field write: ModelOpt's
// hf_quant_config.json, Transformers' quantization_config, compressed-tensors groups.
#include "models/quantisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "models/json_long_values.h"

namespace infercast {

namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string TrimmedLower(JsonView value) {
  if (!value.Truthy()) return {};
  const std::string text = Lower(value.Display());
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

JsonView QuantizationConfig(JsonView root) {
  const JsonView qc = root["quantization_config"];
  return qc.is_object() ? qc : JsonView();
}

JsonView HfQuantization(JsonView root) {
  const JsonView hq = root["hf_quant_config"]["quantization"];
  return hq.is_object() ? hq : JsonView();
}

JsonView First(JsonView a, JsonView b) { return a.Truthy() ? a : b; }

std::string NormaliseAlgorithm(JsonView value) {
  const std::string name = TrimmedLower(value);
  if (name == "w4a16_mxfp4") return "mxfp4";
  if (name == "mixed-precision" || name == "mixedprecision") return "mixed_precision";
  return name;
}

std::string NormaliseKvAlgorithm(JsonView value) {
  const std::string name = TrimmedLower(value);
  if (name == "fp8" || name == "e4m3" || name == "e5m2") return "fp8";
  if (name == "fp16" || name == "float16" || name == "bf16" || name == "bfloat16") {
    return "bfloat16";
  }
  return name;
}

// KV format from a compressed-tensors style scheme object.
std::string KvFromScheme(JsonView scheme) {
  if (!scheme.is_object()) return {};
  const std::string type = TrimmedLower(scheme["type"]);
  if (Contains(type, "fp8")) return "fp8";
  const std::optional<std::int64_t> bits = scheme["num_bits"].AsInteger();
  if (type == "float" && bits) {
    if (*bits <= 8) return "fp8";
    if (*bits >= 16) return "bfloat16";
  }
  return {};
}

// An exact integer: 4.0 does not count as 4 bits.
std::optional<std::int64_t> StrictInteger(JsonView value) {
  if (!value.exists() || value.node()->kind != JsonNode::Kind::kInteger) return std::nullopt;
  return value.node()->integer;
}

// Base format of a compressed-tensors checkpoint: of its first group that tells one.
std::string CompressedTensorsBase(JsonView qc) {
  const JsonView groups = qc["config_groups"];
  for (std::size_t i = 0; groups.is_object() && i < groups.size(); ++i) {
    const JsonView weights = groups.Item(i)["weights"];
    const std::optional<std::int64_t> bits = StrictInteger(weights["num_bits"]);
    const std::string type = TrimmedLower(weights["type"]);
    if (!bits) continue;
    if (*bits == 4 && Contains(type, "int")) return "int4_wo";
    if (*bits == 8 && Contains(type, "int")) return "int8_wo";
    if (*bits == 8 && Contains(type, "float")) {
      const bool block =
          TrimmedLower(weights["strategy"]) == "block" || weights["block_structure"].Truthy();
      return block ? "fp8_block" : "fp8";
    }
    if (*bits == 4 && Contains(type, "float")) return "w4a16_mxfp4";
  }
  return {};
}

struct CompressedTensorsIgnores {
  bool attention = false;
  bool routed_experts = false;
};

CompressedTensorsIgnores ReadIgnores(JsonView qc) {
  constexpr std::array<std::string_view, 5> kAttention = {"self_attn", "q_proj", "k_proj", "v_proj",
                                                          "o_proj"};
  CompressedTensorsIgnores out;
  const JsonView ignore = qc["ignore"];
  for (std::size_t i = 0; ignore.is_array() && i < ignore.size(); ++i) {
    const std::string pattern = Lower(ignore.Item(i).Display());
    for (const std::string_view marker : kAttention) {
      if (Contains(pattern, marker)) out.attention = true;
    }
    if (!Contains(pattern, "shared_expert") && Contains(pattern, "expert")) {
      out.routed_experts = true;
    }
  }
  return out;
}

// Formats of a mixed checkpoint's layers, dense and routed apart.
struct LayerFormats {
  std::vector<std::string> dense;
  std::vector<std::string> routed;

  static bool Has(const std::vector<std::string>& set, std::string_view name) {
    return std::ranges::find(set, name) != set.end();
  }
  void Add(std::string_view target, std::string_view algorithm) {
    if (algorithm.empty()) return;
    const bool in_dense = Has(dense, algorithm);
    const bool in_routed = Has(routed, algorithm);
    if (in_dense && in_routed) return;
    const bool is_routed = IsRoutedExpertTarget(target);
    if (is_routed ? in_routed : in_dense) return;
    (is_routed ? routed : dense).emplace_back(algorithm);
  }
};

std::string GroupAlgorithm(JsonView group) {
  const JsonView weights = group["weights"];
  if (!weights.is_object()) return {};
  const std::string named = LayerAlgorithm(weights);
  if (!named.empty()) return named;
  const std::optional<std::int64_t> bits = StrictInteger(weights["num_bits"]);
  if (!bits || !Contains(TrimmedLower(weights["type"]), "float")) return {};
  if (*bits == 8) return weights["group_size"].AsInteger() == 32 ? "mxfp8" : "fp8";
  if (*bits == 4) return "nvfp4";
  return {};
}

// What an entry of a per-layer list says, as it is spelled.
JsonView NamedAlgorithm(JsonView entry) {
  return entry.is_object() ? entry.FirstTruthy({"quant_algo", "quantization_algo", "quant_method"})
                           : entry;
}

LayerFormats CollectLayerFormats(JsonView root) {
  LayerFormats formats;
  JsonView listed;
  for (const JsonView source : {HfQuantization(root), QuantizationConfig(root)}) {
    const JsonView layers = source["quantized_layers"];
    if (AreOneValue(layers, listed)) continue;
    listed = layers;
    // Thousands of entries repeat a few formats: an entry like the one before it is not normalised
    // again.
    JsonView before;
    std::string algorithm;
    for (std::size_t i = 0; layers.is_object() && i < layers.size(); ++i) {
      const JsonView entry = layers.Item(i);
      if (!AreOneValue(entry, before)) algorithm = LayerAlgorithm(entry);
      before = entry;
      formats.Add(layers.Key(i), algorithm);
    }
  }
  const JsonView groups = QuantizationConfig(root)["config_groups"];
  for (std::size_t i = 0; groups.is_object() && i < groups.size(); ++i) {
    const std::string algorithm = GroupAlgorithm(groups.Item(i));
    const JsonView targets = groups.Item(i)["targets"];
    for (std::size_t j = 0; targets.is_array() && j < targets.size(); ++j) {
      formats.Add(targets.Item(j).Display(), algorithm);
    }
  }
  return formats;
}

GemmQuant PerTensorFp8(const CheckpointQuant& quant) {
  return quant.dynamic.value_or(false) ? GemmQuant::kFp8 : GemmQuant::kFp8Static;
}

void InferMixedPrecision(JsonView root, const CheckpointQuant& quant, QuantOverrides& out) {
  const LayerFormats formats = CollectLayerFormats(root);
  const auto dense = [&](std::string_view name) { return LayerFormats::Has(formats.dense, name); };
  const auto routed = [&](std::string_view name) {
    return LayerFormats::Has(formats.routed, name);
  };
  const JsonView qc = QuantizationConfig(root);
  const bool method_fp8 = TrimmedLower(qc["quant_method"]) == "fp8";
  if (method_fp8 && qc["weight_block_size"].Truthy()) {
    out.gemm = GemmQuant::kFp8Block;
  } else if (method_fp8) {
    out.gemm = PerTensorFp8(quant);
  } else if (dense("mxfp8")) {
    out.gemm = GemmQuant::kFp8Block;
  } else if (dense("fp8")) {
    out.gemm = PerTensorFp8(quant);
  } else if (dense("w4a16_nvfp4")) {
    out.gemm = GemmQuant::kW4a16Nvfp4;
  } else if (dense("nvfp4")) {
    out.gemm = GemmQuant::kNvfp4;
  }
  if (routed("w4a16_nvfp4")) {
    out.moe = MoeQuant::kW4a16Nvfp4;
  } else if (routed("nvfp4")) {
    out.moe = MoeQuant::kNvfp4;
  } else if (routed("mxfp8")) {
    out.moe = MoeQuant::kFp8Block;
  } else if (routed("fp8")) {
    out.moe = MoeQuant::kFp8;
  }
}

Status InferCompressedTensors(JsonView root, QuantOverrides& out) {
  const JsonView qc = QuantizationConfig(root);
  const std::string base = CompressedTensorsBase(qc);
  if (base.empty()) return {};
  const CompressedTensorsIgnores ignored = ReadIgnores(qc);
  if (!ignored.attention) {
    out.gemm = ParseEnum<GemmQuant>(base);
    if (!out.gemm) {
      return Fail(ErrorKind::kModelConfig,
                  fmt::format("no GEMM mode stands for compressed-tensors format {}", base));
    }
  }
  if (!ignored.routed_experts) {
    out.moe = ParseEnum<MoeQuant>(base);
    if (!out.moe) {
      return Fail(ErrorKind::kModelConfig,
                  fmt::format("no expert mode stands for compressed-tensors format {}", base));
    }
  }
  return {};
}

constexpr std::string_view kDeepseekV4 = "DeepseekV4ForCausalLM";

std::optional<std::string> NonEmpty(std::string text) {
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace

std::string LayerAlgorithm(JsonView entry) {
  const std::string name = TrimmedLower(NamedAlgorithm(entry));
  if (name == "e4m3" || name == "e5m2") return "fp8";
  if (name == "fp4") return "nvfp4";
  return name;
}

bool IsRoutedExpertTarget(std::string_view path) {
  constexpr std::string_view kExpert = "expert";
  const auto matches = [&](std::size_t at, std::string_view word) {
    if (at > path.size() || path.size() - at < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const char c = path[at + i];
      if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c) != word[i]) return false;
    }
    return true;
  };
  const auto follows = [&](std::size_t at, std::string_view word) {
    return at >= word.size() && matches(at - word.size(), word);
  };
  bool routed = false;
  // The rare letter of the word is looked for first: paths are long and come by the thousands.
  for (const char letter : {'x', 'X'}) {
    for (std::size_t x = path.find(letter); x != std::string_view::npos;
         x = path.find(letter, x + 1)) {
      if (x == 0 || !matches(x - 1, kExpert)) continue;
      const std::size_t end = x - 1 + kExpert.size();
      if (follows(x - 1, "shared_")) return false;
      if (follows(x - 1, "routing_")) routed = true;
      if (follows(x - 1, ".") && matches(end, "s") &&
          (end + 1 == path.size() || path[end + 1] == '.')) {
        routed = true;
      }
    }
  }
  return routed;
}

bool HasNvfp4RoutedExperts(JsonView root) {
  return LayerFormats::Has(CollectLayerFormats(root).routed, "nvfp4");
}

CheckpointQuant ReadCheckpointQuant(JsonView root) {
  const JsonView qc = QuantizationConfig(root);
  const JsonView hq = HfQuantization(root);
  CheckpointQuant out;

  std::string algorithm = NormaliseAlgorithm(First(
      hq["quant_algo"], qc.FirstTruthy({"quant_algo", "quant_method", "quantization_method"})));
  if (algorithm == "fp8" && qc["weight_block_size"].Truthy()) algorithm = "fp8_block";
  out.algorithm = NonEmpty(std::move(algorithm));

  std::string kv = NormaliseKvAlgorithm(
      First(hq["kv_cache_quant_algo"],
            qc.FirstTruthy({"kv_cache_quant_algo", "kv_cache_quant_method", "kv_cache_dtype"})));
  if (kv.empty()) kv = KvFromScheme(qc["kv_cache_scheme"]);
  out.kv_algorithm = NonEmpty(std::move(kv));

  const std::string scheme = TrimmedLower(qc["activation_scheme"]);
  if (scheme == "dynamic" || scheme == "static") {
    out.dynamic = scheme == "dynamic";
  } else {
    const JsonView groups = qc["config_groups"];
    for (std::size_t i = 0; groups.is_object() && i < groups.size(); ++i) {
      for (const std::string_view part : {"input_activations", "weights"}) {
        const JsonView dynamic = groups.Item(i)[part]["dynamic"];
        if (dynamic.exists()) out.dynamic = out.dynamic.value_or(false) || dynamic.Truthy();
      }
    }
  }

  // A checkpoint's own top-level statement of the same name wins over what was inferred.
  if (const JsonView own = root["quant_algo"]; own.exists()) {
    out.algorithm = own.Truthy() ? std::optional(own.Display()) : std::nullopt;
  }
  if (const JsonView own = root["kv_cache_quant_algo"]; own.exists()) {
    out.kv_algorithm = own.Truthy() ? std::optional(own.Display()) : std::nullopt;
  }
  if (const JsonView own = root["quant_dynamic"]; own.exists()) {
    out.dynamic = own.is_null() ? std::nullopt : std::optional(own.Truthy());
  }
  return out;
}

Result<QuantOverrides> InferQuantModes(JsonView root, const CheckpointQuant& quant,
                                       std::string_view architecture) {
  QuantOverrides out;
  const std::string_view a = quant.algorithm ? std::string_view(*quant.algorithm) : "";
  const std::string_view k = quant.kv_algorithm ? std::string_view(*quant.kv_algorithm) : "";

  if (a == "fp8") {
    out.gemm = PerTensorFp8(quant);
    out.moe = MoeQuant::kFp8;
  } else if (a == "fp8_block") {
    out.gemm = GemmQuant::kFp8Block;
    out.moe = MoeQuant::kFp8Block;
  } else if (a == "nvfp4") {
    out.gemm = GemmQuant::kNvfp4;
    out.moe = MoeQuant::kNvfp4;
  } else if (a == "mxfp4") {
    out.gemm = GemmQuant::kBfloat16;
    out.moe = MoeQuant::kW4a16Mxfp4;
  } else if (a == "mixed_precision") {
    InferMixedPrecision(root, quant, out);
  } else if (a == "compressed-tensors") {
    IC_RETURN_IF_ERROR(InferCompressedTensors(root, out));
  } else if (!a.empty()) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("unsupported quantisation algorithm \"{}\" (known: fp8, fp8 with block "
                            "scales, nvfp4, mxfp4, mixed_precision, compressed-tensors)",
                            a));
  }
  if (architecture == kDeepseekV4 && Lower(root["expert_dtype"].AsText().value_or("")) == "fp4" &&
      out.moe != MoeQuant::kNvfp4) {
    out.moe = MoeQuant::kW4a8Mxfp4Mxfp8;
  }

  if (k == "fp8") {
    out.kv = KvQuant::kFp8;
  } else if (k == "bfloat16") {
    out.kv = KvQuant::kBfloat16;
  } else if (!k.empty()) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("unsupported KV-cache algorithm \"{}\" (known: fp8, bfloat16)", k));
  }
  if (architecture == kDeepseekV4) out.kv = KvQuant::kFp8;

  if (a == "fp8" || a == "fp8_block" || a == "nvfp4" || (!a.empty() && k == "fp8")) {
    out.fmha = FmhaQuant::kFp8;
    if (k != "fp8") out.kv = KvQuant::kFp8;
  }
  return out;
}

QuantModes ResolveQuantModes(const QuantOverrides& given, const QuantOverrides& inferred,
                             std::string_view architecture, Backend backend) {
  QuantModes modes;
  modes.gemm = given.gemm.value_or(inferred.gemm.value_or(GemmQuant::kBfloat16));
  modes.moe = given.moe.value_or(inferred.moe.value_or(MoeQuant::kBfloat16));
  modes.kv = given.kv.value_or(inferred.kv.value_or(KvQuant::kBfloat16));
  modes.fmha = given.fmha.value_or(inferred.fmha.value_or(FmhaQuant::kBfloat16));
  modes.comm = given.comm.value_or(CommQuant::kHalf);

  const bool indexed =
      architecture == "DeepseekV32ForCausalLM" || architecture == "GlmMoeDsaForCausalLM";
  const bool no_fp8_attention = backend == Backend::kVllm || architecture == kDeepseekV4 || indexed;
  if (!given.fmha && modes.fmha == FmhaQuant::kFp8 && no_fp8_attention) {
    modes.fmha = FmhaQuant::kBfloat16;
  }
  if (!given.moe && backend == Backend::kVllm && architecture == "NemotronHForCausalLM" &&
      modes.moe == MoeQuant::kW4a16Nvfp4) {
    modes.moe = MoeQuant::kNvfp4;
  }
  return modes;
}

std::vector<std::string> ExclusionPatterns(JsonView root) {
  const JsonView qc = QuantizationConfig(root);
  const JsonView hq = HfQuantization(root);
  std::vector<std::string> patterns;
  for (const JsonView list : {qc["modules_to_not_convert"], qc["exclude_modules"], qc["ignore"],
                              hq["exclude_modules"], hq["ignore"]}) {
    for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
      if (const auto text = list.Item(i).AsText()) patterns.emplace_back(*text);
    }
  }
  return patterns;
}

ProjectionExclusions ExcludedProjections(const std::vector<std::string>& patterns) {
  constexpr std::array<std::string_view, 3> kQ = {"q_a_proj", "q_b_proj", "q_proj"};
  constexpr std::array<std::string_view, 5> kKv = {"kv_a_proj", "kv_b_proj", "kv_proj", "k_proj",
                                                   "v_proj"};
  ProjectionExclusions out;
  for (const std::string& pattern : patterns) {
    const auto any = [&](const auto& markers) {
      return std::ranges::any_of(markers, [&](std::string_view m) { return Contains(pattern, m); });
    };
    const bool q = any(kQ);
    const bool kv = any(kKv);
    const bool o = Contains(pattern, "o_proj");
    const bool indexer = Contains(pattern, "indexer");
    if (Contains(pattern, "self_attn") && !q && !kv && !o && !indexer) {
      return {true, true, true, true};
    }
    out.q |= q;
    out.kv |= kv;
    out.o |= o;
    out.indexer |= indexer;
  }
  return out;
}

}  // namespace infercast
