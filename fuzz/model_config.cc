// A checkpoint's config.json and hf_quant_config.json: no input may crash, hang or take the
// machine's memory, and what is accepted is described and builds operator lists (or says why not)
// for every backend.
//
// The two files are separated by a line of "---"; without one there is no quantisation file.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/spec_json.h"
#include "models/anatomy.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "models/model_plan.h"

namespace {

using namespace infercast;

void Build(const ModelConfig& model, Backend backend, const ParallelLayout& layout) {
  BuildOptions options;
  options.backend = backend;
  options.layout = layout;
  options.override_layers = model.layers > 4096 ? 64 : 0;
  auto plan = BuildModelPlan(model, options);
  if (!plan) {
    if (plan.error().message.empty()) std::abort();
    return;
  }
  EngineTarget target;
  target.system = "h200_sxm";
  target.backend_version = "1.0.0";
  const auto spec = CompileEngineSpec(*std::move(plan), target);
  if (!spec) return;
  if (!ParseEngineSpecJson(WriteEngineSpecJson(*spec))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kSeparator = "\n---\n";
  const std::size_t at = text.find(kSeparator);
  const std::string_view config = text.substr(0, at);
  const std::string_view quant =
      at == std::string_view::npos ? std::string_view() : text.substr(at + kSeparator.size());
  const auto model = ParseCheckpoint("made-up/model", config, quant, UnlistedArchitecture::kMap);
  if (!model) {
    if (model.error().message.empty()) std::abort();
    return 0;
  }
  if (const auto anatomy = DescribeModel(*model); !anatomy) {
    if (anatomy.error().message.empty()) std::abort();
  } else {
    for (const LayerGroup& group : anatomy->groups) {
      if (!(KvBytesPerToken(group, 2, 1) >= 0) || !(StateBytes(group, 2) >= 0)) std::abort();
    }
  }
  Build(*model, Backend::kTrtllm, {.tp = 1, .moe_ep = 1});
  Build(*model, Backend::kVllm, {.tp = 4, .moe_ep = 4});
  Build(*model, Backend::kSglang, {.tp = 2, .dp = 4, .moe_tp = 2});
  return 0;
}
