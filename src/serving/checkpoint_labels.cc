#include "serving/checkpoint_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace infercast {

namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool Mentions(std::string_view model, std::string_view part) {
  return Lower(model).find(Lower(part)) != std::string::npos;
}

std::string_view WithoutOrganisation(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

bool DropSuffix(std::string& name, std::string_view suffix) {
  if (name.size() <= suffix.size() || !Lower(name).ends_with(Lower(suffix))) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

// Names whose shape is that of a bundled one although nothing in the spelling says so.
struct Alias {
  std::string_view published, bundled;
};
constexpr std::array<Alias, 5> kAliases = {{
    {"DeepSeek-V3.1", "deepseek-ai/DeepSeek-R1"},
    {"DeepSeek-V3-0324", "deepseek-ai/DeepSeek-R1"},
    {"DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"},
    {"DeepSeek-V3", "deepseek-ai/DeepSeek-R1"},
    {"DeepSeek-R1", "deepseek-ai/DeepSeek-R1"},
}};

// Checkpoints that a base name stands for at a precision, when its own configuration says another.
struct Variant {
  std::string_view base, precision, bundled;
};
constexpr std::array<Variant, 2> kVariants = {{
    {"GLM-5", "fp8", "zai-org/GLM-5-FP8"},
    {"GLM-5", "fp4", "nvidia/GLM-5-NVFP4"},
}};

constexpr std::array<std::string_view, 12> kFormatSuffixes = {
    "-NVFP4", "-FP4",      "-FP8", "-BF16",          "-FP8-dynamic",   "-W4A16",
    "-MXFP4", "-Instruct", "-it",  "-Instruct-2507", "-Thinking-2507", "-Thinking"};

std::string Spelled(std::string_view name, const std::vector<std::string>& bundled) {
  std::string found = ResolveSpelling(name, bundled);
  if (found.empty()) found = ResolveSpelling(WithoutOrganisation(name), bundled);
  return found;
}

void SetBoth(QuantOverrides& q, GemmQuant gemm, MoeQuant moe) {
  q.gemm = gemm;
  q.moe = moe;
}

}  // namespace

std::string BundledNameFor(std::string_view model, std::string_view precision,
                           const std::vector<std::string>& bundled) {
  std::string base(WithoutOrganisation(model));
  bool dropped = true;
  while (dropped) {
    dropped = false;
    for (const std::string_view suffix : kFormatSuffixes)
      dropped = dropped || DropSuffix(base, suffix);
  }
  const auto is_bundled = [&](std::string_view name) {
    return std::ranges::find(bundled, name) != bundled.end();
  };
  for (const Variant& v : kVariants) {
    if (Lower(base) == Lower(v.base) && precision == v.precision && is_bundled(v.bundled)) {
      return std::string(v.bundled);
    }
  }
  for (const Alias& alias : kAliases) {
    if (Lower(base) == Lower(alias.published) && is_bundled(alias.bundled)) {
      return std::string(alias.bundled);
    }
  }
  std::string found = Spelled(model, bundled);
  // The shape is that of the plain checkpoint; its number formats come from the label.
  if (found.empty()) found = Spelled(base, bundled);
  if (!found.empty()) return found;
  for (const char* format : {"-FP8", "-NVFP4", "-Instruct", "-BF16"}) {
    found = Spelled(base + format, bundled);
    if (!found.empty()) return found;
  }
  return {};
}

Result<ResolvedCheckpoint> ResolveCheckpoint(const CheckpointLabel& label, const SystemSpec& system,
                                             const std::vector<std::string>& bundled) {
  ResolvedCheckpoint out;
  out.model = BundledNameFor(label.model, label.precision, bundled);
  if (out.model.empty()) {
    return Fail(ErrorKind::kUnknownName,
                fmt::format("no bundled configuration serves for model '{}'", label.model));
  }
  if (out.model != label.model) {
    out.notes.push_back(
        fmt::format("{} priced with the configuration of {}", label.model, out.model));
  }
  QuantOverrides q = label.quant;
  const std::string_view precision = label.precision;
  const bool quantised = precision == "fp8" || precision == "fp4" || precision == "nvfp4" ||
                         precision == "mxfp4" ||
                         (precision.empty() && q.gemm && *q.gemm != GemmQuant::kBfloat16);
  if (!q.gemm) {
    if (precision == "fp8") q.gemm = GemmQuant::kFp8;
    if (precision == "fp4" || precision == "nvfp4") q.gemm = GemmQuant::kNvfp4;
    if (precision == "bf16" || precision == "bfloat16" || precision == "fp16") {
      q.gemm = GemmQuant::kBfloat16;
    }
    // Another label, or none: as the checkpoint says of itself.
    if (!q.gemm) {
      out.quant = q;
      if (!precision.empty()) {
        out.notes.push_back(fmt::format("precision '{}' is left to the checkpoint", precision));
      }
      return out;
    }
  }
  if (!q.moe) {
    q.moe = *q.gemm == GemmQuant::kFp8        ? MoeQuant::kFp8
            : *q.gemm == GemmQuant::kFp8Block ? MoeQuant::kFp8Block
            : *q.gemm == GemmQuant::kNvfp4    ? MoeQuant::kNvfp4
                                              : MoeQuant::kBfloat16;
  }
  const QuantOverrides labelled = q;
  const bool fp8 = *q.gemm == GemmQuant::kFp8 || *q.gemm == GemmQuant::kFp8Block;
  const bool hopper = system.IsHopper();
  std::string why;
  if (Mentions(label.model, "Llama-3.1-70B") && *q.gemm == GemmQuant::kFp8) {
    q.gemm = GemmQuant::kFp8Static;
    why = "its fp8 checkpoint has static scales per tensor";
  } else if (Mentions(label.model, "gpt-oss")) {
    SetBoth(q, GemmQuant::kBfloat16,
            system.IsBlackwell() ? MoeQuant::kW4a8Mxfp4Mxfp8 : MoeQuant::kW4a16Mxfp4);
    why = "only the experts of gpt-oss are stored in 4 bits";
  } else if (hopper && label.backend == Backend::kVllm && fp8 &&
             (Mentions(label.model, "MiniMax") || Mentions(label.model, "Qwen3-235B"))) {
    SetBoth(q, GemmQuant::kFp8Block, MoeQuant::kFp8Block);
    why = "its fp8 checkpoint has block scales";
    if (Mentions(label.model, "MiniMax")) {
      // The measured block-scaled product takes as long for every small size: it is the launch of
      // its kernels, which CUDA graphs hide in serving. The weights are as many bytes either way.
      q.gemm = GemmQuant::kFp8;
      why += ", whose dense products were measured with their launch";
    }
  } else if (hopper && label.backend == Backend::kTrtllm && fp8 &&
             Mentions(label.model, "DeepSeek")) {
    SetBoth(q, GemmQuant::kFp8Block, MoeQuant::kFp8Block);
    why = "its fp8 checkpoint has block scales";
  }
  if (!system.IsBlackwell()) {
    if (*q.gemm == GemmQuant::kNvfp4) q.gemm = GemmQuant::kNvfp4Wo;
    if (*q.moe == MoeQuant::kNvfp4) q.moe = MoeQuant::kNvfp4Wo;
  }
  if (*q.gemm != *labelled.gemm || *q.moe != *labelled.moe) {
    out.notes.push_back(fmt::format("weights read as {} (experts {}) instead of {} ({}){}{}",
                                    ToString(*q.gemm), ToString(*q.moe), ToString(*labelled.gemm),
                                    ToString(*labelled.moe), why.empty() ? "" : ": ", why));
  }
  if (!q.kv && hopper && label.backend == Backend::kSglang && Mentions(label.model, "DeepSeek")) {
    q.kv = KvQuant::kBfloat16;
    out.notes.emplace_back("KV cache kept in 16 bits: SGLang's recipes for DeepSeek on Hopper do");
  }
  if (!q.kv) q.kv = quantised ? KvQuant::kFp8 : KvQuant::kBfloat16;
  if (!q.fmha) q.fmha = *q.kv == KvQuant::kFp8 ? FmhaQuant::kFp8 : FmhaQuant::kBfloat16;
  if (!q.comm) q.comm = CommQuant::kHalf;
  out.quant = q;
  return out;
}

std::vector<QuantOverrides> AttentionLadder(const QuantOverrides& quant) {
  std::vector<QuantOverrides> ladder{quant};
  const auto add = [&](FmhaQuant fmha, KvQuant kv) {
    QuantOverrides q = quant;
    q.fmha = fmha;
    q.kv = kv;
    if (std::ranges::find(ladder, q) == ladder.end()) ladder.push_back(q);
  };
  add(FmhaQuant::kBfloat16, quant.kv.value_or(KvQuant::kBfloat16));
  add(FmhaQuant::kBfloat16, KvQuant::kBfloat16);
  return ladder;
}

}  // namespace infercast
