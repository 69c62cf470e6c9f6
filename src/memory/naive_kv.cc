#include "memory/naive_kv.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <string>

#include "base/float_division.h"
#include "base/ordinals.h"
#include "models/json_tree.h"
#include "models/model_config.h"

namespace infercast {

namespace {

// A positive whole number, also written as an integral decimal or as text; not a boolean. Larger
// ones than any model's are as good as absent: products of two must fit 64 bits.
constexpr std::int64_t kLargest = (std::int64_t{1} << 30) - 1;
std::optional<std::int64_t> PositiveInteger(JsonView value) {
  if (value.AsBool()) return std::nullopt;
  if (const auto n = value.AsInteger()) return *n > 0 && *n <= kLargest ? n : std::nullopt;
  if (const auto text = value.AsText()) {
    std::int64_t n = 0;
    const char* end = std::to_address(text->end());
    const auto read = std::from_chars(std::to_address(text->begin()), end, n);
    if (read.ec == std::errc{} && read.ptr == end && n > 0 && n <= kLargest) return n;
  }
  return std::nullopt;
}

std::optional<std::int64_t> First(JsonView source, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto value = PositiveInteger(source[key])) return value;
  }
  return std::nullopt;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

double ElementBytes(JsonView source) {
  JsonView dtype = source["torch_dtype"];
  if (!dtype.is_text()) dtype = source["dtype"];
  const std::string name = Lower(dtype.AsText().value_or(""));
  if (name == "float32" || name == "fp32") return 4;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has("fp8") || has("float8") || has("int8") ? 1 : 2;
}

NaiveModel FromRawKeys(JsonView source) {
  NaiveModel m;
  m.hidden = First(source, {"hidden_size", "n_embd", "n_embed"});
  m.layers = First(source, {"num_hidden_layers", "n_layer", "num_layers"});
  m.heads = First(source, {"num_attention_heads", "n_head", "num_heads"});
  m.head_dim = First(source, {"head_dim", "attention_head_dim"});
  if (!m.head_dim && m.hidden && m.heads) m.head_dim = *m.hidden / *m.heads;
  m.experts = First(source, {"n_routed_experts", "num_local_experts", "num_experts"}).value_or(0);
  m.inter = First(source, {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"});
  if (!m.inter && m.experts == 0 && m.hidden) m.inter = 4 * *m.hidden;
  m.kv_heads = First(source, {"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"});
  if (!m.kv_heads) m.kv_heads = m.heads;
  if (source["multi_query"].Truthy() && !source["new_decoder_architecture"].Truthy()) {
    m.kv_heads = 1;
  }
  m.vocab = First(source, {"vocab_size"});
  m.kv_lora_rank = First(source, {"kv_lora_rank"});
  m.qk_rope_head_dim = First(source, {"qk_rope_head_dim"});
  m.moe_inter = First(source, {"moe_intermediate_size"});
  if (!m.moe_inter) m.moe_inter = m.inter;
  m.element_bytes = ElementBytes(source);

  m.window = First(source, {"sliding_window", "sliding_window_size"});
  const JsonView types = source["layer_types"];
  if (m.window && types.is_array() && types.size() > 0) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool sliding =
          Lower(types.Item(i).AsText().value_or("")).find("sliding") != std::string::npos;
      ++(sliding ? m.window_layers : m.global_layers);
    }
  } else if (m.window && m.layers) {
    if (const auto pattern = First(source, {"sliding_window_pattern"})) {
      m.global_layers = *m.layers / *pattern;
      m.window_layers = *m.layers - m.global_layers;
    }
  }
  return m;
}

NaiveModel FromParsed(const ModelConfig& config) {
  const auto some = [](std::int64_t v) {
    return v > 0 ? std::optional<std::int64_t>(v) : std::nullopt;
  };
  NaiveModel m;
  m.hidden = some(config.hidden_size);
  m.layers = some(config.layers);
  m.heads = some(config.heads);
  m.head_dim = some(config.head_dim);
  m.kv_heads = some(config.kv_heads > 0 ? config.kv_heads : config.heads);
  m.vocab = some(config.vocab);
  m.inter = some(config.inter_size);
  m.experts = config.num_experts;
  m.moe_inter = some(config.moe_inter_size > 0 ? config.moe_inter_size : config.inter_size);
  m.kv_lora_rank = First(config.decoder(), {"kv_lora_rank"});
  m.qk_rope_head_dim = First(config.decoder(), {"qk_rope_head_dim"});
  m.element_bytes = ElementBytes(config.root());
  return m;
}

std::int64_t Ceil(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(CeilDiv(
      static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(std::max<std::int64_t>(b, 1))));
}

}  // namespace

std::optional<double> NaiveModel::KvBytesPerToken(std::int64_t tp) const {
  if (!layers) return std::nullopt;
  if (kv_lora_rank) {
    if (!qk_rope_head_dim) return std::nullopt;
    return static_cast<double>(*layers * (*kv_lora_rank + *qk_rope_head_dim)) * element_bytes;
  }
  if (!kv_heads || !head_dim) return std::nullopt;
  return static_cast<double>(2 * Ceil(*kv_heads, tp) * *head_dim) * static_cast<double>(*layers) *
         element_bytes;
}

std::optional<double> NaiveModel::WeightBytes(const ParallelLayout& layout) const {
  if (!hidden || !layers || !vocab) return std::nullopt;
  const double h = static_cast<double>(*hidden);
  const double l = static_cast<double>(*layers);
  const double embed = 2 * static_cast<double>(*vocab) * h;
  const double attention = 4 * h * h;
  const double gpus = static_cast<double>(layout.tp * layout.pp);
  if (experts == 0) {
    if (!inter) return std::nullopt;
    return std::floor((embed + l * (attention + 3 * h * static_cast<double>(*inter))) *
                      element_bytes / gpus);
  }
  if (!moe_inter) return std::nullopt;
  const double expert =
      std::floor(static_cast<double>(experts) * 3 * h * static_cast<double>(*moe_inter) /
                 static_cast<double>(layout.moe_tp.value_or(1) * layout.moe_ep.value_or(1)));
  return std::floor((embed + l * attention) * element_bytes / gpus) +
         std::floor(l * expert * element_bytes / static_cast<double>(layout.pp));
}

std::int64_t NaiveModel::Tokens(double budget, std::int64_t tp) const {
  const double per_token = KvBytesPerToken(tp).value_or(0);
  if (!(per_token > 0) || !(budget > 0)) return 0;
  if (!kv_lora_rank && window && window_layers > 0 && head_dim && kv_heads) {
    const double per_layer =
        static_cast<double>(2 * Ceil(*kv_heads, tp) * *head_dim) * element_bytes;
    const double rate = static_cast<double>(window_layers + global_layers) * per_layer;
    const double w = static_cast<double>(*window);
    if (budget <= rate * w) return static_cast<std::int64_t>(ExactFloorDivide(budget, rate));
    const double global = static_cast<double>(global_layers) * per_layer;
    if (global == 0) return *window;
    return *window + static_cast<std::int64_t>(ExactFloorDivide(budget - rate * w, global));
  }
  return static_cast<std::int64_t>(ExactFloorDivide(budget, per_token));
}

Result<NaiveModel> LoadNaiveModel(std::string_view name, const CheckpointSearch& search) {
  if (const Result<ModelConfig> config = LoadModelConfig(name, search)) return FromParsed(*config);
  IC_ASSIGN(const JsonDocument document, LoadCheckpointDocument(name, search));
  return FromRawKeys(document.root());
}

}  // namespace infercast
