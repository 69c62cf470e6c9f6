// MiMo-V2-Flash (sliding and global attention by a pattern, experts in all layers but the first)
// and Llama-4 (chunked and global attention alternate, experts every so many layers).
#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>

#include "models/families.h"
#include "models/hybrid_layers.h"

namespace infercast {

namespace {

Status ParseMiMo(ModelConfig& m) {
  const JsonView c = m.decoder();
  auto record = std::make_shared<HybridLayers>();
  // In this pattern 1 is read as global attention.
  IC_ASSIGN(record->global_attention,
            ReadLayerFlags(c["hybrid_layer_pattern"], m.layers, "hybrid_layer_pattern"));
  const JsonView frequency = c["moe_layer_freq"];
  if (const std::optional<double> scalar = frequency.AsNumber()) {
    if (*scalar != 0 && *scalar != 1) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("moe_layer_freq must be 0 or 1, got {}", *scalar));
    }
    record->routed.assign(static_cast<std::size_t>(m.layers), *scalar == 1);
  } else {
    IC_ASSIGN(record->routed, ReadLayerFlags(frequency, m.layers, "moe_layer_freq"));
  }
  IC_ASSIGN(record->sliding_kv_heads, ReadSize(c, "swa_num_key_value_heads"));
  IC_ASSIGN(record->sliding_head_dim, ReadSize(c, "swa_head_dim"));
  IC_ASSIGN(record->sliding_v_dim, ReadSize(c, "swa_v_head_dim"));
  IC_ASSIGN(record->global_v_dim, ReadSize(c, "v_head_dim"));
  IC_ASSIGN(record->window, ReadSize(c, "sliding_window_size"));
  m.record = std::move(record);
  return {};
}

Status ParseLlama4(ModelConfig& m) {
  const JsonView c = m.decoder();
  auto record = std::make_shared<HybridLayers>();
  std::int64_t step = 1;
  if (const JsonView value = c["interleave_moe_layer_step"]; value.exists()) {
    const std::optional<std::int64_t> integer = value.AsInteger();
    if (!integer || *integer <= 0) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("interleave_moe_layer_step must be a positive integer, got {}",
                              value.Display()));
    }
    step = *integer;
  }
  for (std::int64_t i = 0; i < m.layers; ++i) {
    record->global_attention.push_back(i % 2 == 1);
    record->routed.push_back((i + 1) % step == 0);
  }
  IC_ASSIGN(record->window, ReadSize(c, "attention_chunk_size"));
  IC_ASSIGN(record->dense_inter, ReadSize(c, "intermediate_size_mlp"));
  m.record = std::move(record);
  return {};
}

Status Parse(ModelConfig& m) {
  IC_RETURN_IF_ERROR(m.architecture == "MiMoV2FlashForCausalLM" ? ParseMiMo(m) : ParseLlama4(m));
  const auto& layers = m.RecordAs<HybridLayers>();
  if (m.num_experts > 0 && m.topk > 0) {
    m.moe_layers = layers.Count(true, true) + layers.Count(false, true);
  }
  return {};
}

Result<FamilyPlan> Build(const BuildContext& b) {
  return BuildHybridLayers(b, b.model->RecordAs<HybridLayers>());
}

constexpr std::array<Architecture, 2> kArchitectures = {
    {{"MiMoV2FlashForCausalLM"}, {"Llama4ForConditionalGeneration", true}}};

}  // namespace

const FamilyEntry kHybridMoeFamily = {.id = ModelFamily::kHybridMoe,
                                      .architectures = kArchitectures,
                                      .is_moe = nullptr,
                                      .is_moe_always = true,
                                      .context_parallel = true,
                                      .parse = Parse,
                                      .build = Build};

}  // namespace infercast
