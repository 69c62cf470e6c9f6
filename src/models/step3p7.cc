// Step-3.5 / Step-3.7: hybrid layers with a gate on every attention head and one shared expert.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "models/families.h"
#include "models/hybrid_layers.h"

namespace infercast {

namespace {

struct StepRecord : HybridLayers {
  std::int64_t shared_inter = 0;
};

Status MarkRouted(std::vector<bool>& routed, std::int64_t layer) {
  // Indices of layers that do not exist (draft layers) mark nothing.
  if (layer >= 0 && layer < static_cast<std::int64_t>(routed.size())) {
    routed[static_cast<std::size_t>(layer)] = true;
  }
  return {};
}

// "3,4,5" or [3, 4, 5].
Status ReadRoutedLayers(JsonView value, std::vector<bool>& routed) {
  const auto invalid = [&] {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_layers_enum must list layer numbers, got {}", value.Display()));
  };
  if (const auto text = value.AsText()) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view entry = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (entry.starts_with(' ')) entry.remove_prefix(1);
      while (entry.ends_with(' ')) entry.remove_suffix(1);
      if (entry.empty()) continue;
      std::int64_t layer = 0;
      const auto [end, ec] = std::from_chars(entry.data(), entry.data() + entry.size(), layer);
      if (ec != std::errc() || end != entry.data() + entry.size()) return invalid();
      IC_RETURN_IF_ERROR(MarkRouted(routed, layer));
    }
    return {};
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::optional<std::int64_t> layer = value.Item(i).AsInteger();
    if (!layer) return invalid();
    IC_RETURN_IF_ERROR(MarkRouted(routed, *layer));
  }
  return {};
}

Status Parse(ModelConfig& m) {
  const JsonView c = m.decoder();
  auto record = std::make_shared<StepRecord>();
  const JsonView sliding = c["attention_other_setting"];
  IC_ASSIGN(record->sliding_heads, ReadSize(sliding, "num_attention_heads"));
  IC_ASSIGN(record->sliding_head_dim, ReadSize(sliding, "head_dim"));
  IC_ASSIGN(const std::int64_t drafts, ReadSize(c, "num_nextn_predict_layers"));
  IC_ASSIGN(record->global_attention, ReadGlobalLayers(c["layer_types"], m.layers, drafts));
  record->routed.assign(static_cast<std::size_t>(m.layers), false);
  if (const JsonView routed = c["moe_layers_enum"]; routed.Truthy()) {
    IC_RETURN_IF_ERROR(ReadRoutedLayers(routed, record->routed));
  } else {
    IC_ASSIGN(const std::int64_t first, ReadSize(c, "first_k_dense_replace"));
    for (std::int64_t i = first; i < m.layers; ++i) {
      record->routed[static_cast<std::size_t>(i)] = true;
    }
  }
  const JsonView window = c.FirstTruthy({"sliding_window", "sliding_window_size"});
  if (window.exists()) {
    IC_ASSIGN(record->window, ToSize(window, "sliding_window"));
  }
  record->head_gate = c["use_head_wise_attn_gate"].Truthy();
  // Only the top level is read: a nested checkpoint declares its shared expert in vain.
  IC_ASSIGN(record->shared_inter, ReadSize(m.root(), "share_expert_dim"));
  m.qk_norm = true;
  if (m.num_experts > 0 && m.topk > 0) {
    m.moe_layers = record->Count(true, true) + record->Count(false, true);
  }
  m.record = std::move(record);
  return {};
}

// Sliding layers keep their window, at the global layers' head geometry.
KvLayout StepKv(const BuildContext& b, const StepRecord& record) {
  KvLayout kv = GroupedQueryKv(b);
  const double per_layer =
      static_cast<double>(2 * b.KvHeadsPerGpu() * b.model->head_dim) * b.KvBytesPerElement();
  kv.terms = {
      {.bytes = static_cast<double>(record.SlidingLayers()) * per_layer, .window = record.window},
      {.bytes = static_cast<double>(record.GlobalLayers()) * per_layer}};
  kv.inverse = KvInverse::kSearch;
  return kv;
}

Result<FamilyPlan> Build(const BuildContext& b) {
  const auto& record = b.model->RecordAs<StepRecord>();
  IC_ASSIGN(FamilyPlan plan, BuildHybridLayers(b, record, record.shared_inter));
  plan.kv = StepKv(b, record);
  return plan;
}

constexpr std::array<Architecture, 4> kArchitectures = {{{"Step3p7ForConditionalGeneration", true},
                                                         {"Step3p7FlashForCausalLM", true},
                                                         {"Step3p5ForCausalLM"},
                                                         {"Step3p5FlashForCausalLM"}}};

}  // namespace

const FamilyEntry kStep3p7Family = {.id = ModelFamily::kStep3p7,
                                    .architectures = kArchitectures,
                                    .is_moe = nullptr,
                                    .is_moe_always = true,
                                    .context_parallel = true,
                                    .parse = Parse,
                                    .build = Build};

}  // namespace infercast
