// The sizes every decoder has, under the names checkpoints use for them.
#include "models/model_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/family.h"
#include "models/generic_architecture.h"

namespace infercast {

namespace {

// No size is larger, so that a sum of a few products of two sizes fits 64 bits.
constexpr std::int64_t kLargestSize = (std::int64_t{1} << 30) - 1;
// Some tables are made a layer an entry.
constexpr std::int64_t kMostLayers = 65'536;

std::string SupportedArchitectures() {
  std::string names;
  for (const FamilyEntry* family : AllFamilies()) {
    for (const Architecture& a : family->architectures) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
    }
  }
  return names;
}

Result<std::int64_t> ReadLayers(JsonView source) {
  if (source["num_hidden_layers"].is_present()) return RequireSize(source, "num_hidden_layers");
  if (const JsonView blocks = source["layers_block_type"]; blocks.is_array()) {
    return static_cast<std::int64_t>(blocks.size());
  }
  if (const auto pattern = source["hybrid_override_pattern"].AsText()) {
    return static_cast<std::int64_t>(pattern->size());
  }
  return Fail(ErrorKind::kModelConfig,
              "the configuration has no layer count: num_hidden_layers, layers_block_type and "
              "hybrid_override_pattern are all missing");
}

// A null expert count is one that the checkpoint leaves out.
Result<std::int64_t> SizeOrZero(JsonView value, std::string_view what) {
  if (!value.is_present()) return 0;
  return ToSize(value, what);
}

Status CheckLayers(const ModelConfig& m) {
  if (m.layers <= kMostLayers) return {};
  return Fail(ErrorKind::kModelConfig,
              fmt::format("num_hidden_layers must be at most {}, got {}", kMostLayers, m.layers));
}

Status ReadCommonSizes(ModelConfig& m, JsonView source) {
  IC_ASSIGN(m.layers, ReadLayers(source));
  IC_RETURN_IF_ERROR(CheckLayers(m));
  IC_ASSIGN(m.hidden_size, RequireSize(source, "hidden_size"));
  IC_ASSIGN(m.heads, RequireSize(source, "num_attention_heads"));
  IC_ASSIGN(m.vocab, RequireSize(source, "vocab_size"));
  IC_ASSIGN(m.context, RequireSize(source, "max_position_embeddings"));
  IC_ASSIGN(m.kv_heads, ReadSize(source, "num_key_value_heads"));
  IC_ASSIGN(m.inter_size, ReadSize(source, "intermediate_size"));
  if (m.layers == 0 || m.hidden_size == 0 || m.heads == 0 || m.vocab == 0) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("the configuration has no model: {} layers, hidden size {}, {} heads, "
                            "vocabulary {}",
                            m.layers, m.hidden_size, m.heads, m.vocab));
  }
  const JsonView dim = source.FirstTruthy({"head_dim", "attention_head_dim"});
  IC_ASSIGN(m.head_dim, SizeOrZero(dim, "head_dim"));
  if (m.head_dim == 0) m.head_dim = m.hidden_size / m.heads;

  IC_ASSIGN(m.topk,
            SizeOrZero(source.FirstPresent({"num_experts_per_tok", "top_k_experts", "moe_top_k"}),
                       "num_experts_per_tok"));
  JsonView experts =
      source.FirstTruthy({"num_local_experts", "n_routed_experts", "moe_num_experts"});
  if (!experts.exists()) experts = source["num_experts"];
  IC_ASSIGN(m.num_experts, SizeOrZero(experts, "num_experts"));
  const JsonView moe_inter = source["moe_intermediate_size"];
  if (moe_inter.Truthy()) {
    IC_ASSIGN(m.moe_inter_size, ToSize(moe_inter, "moe_intermediate_size"));
  } else {
    m.moe_inter_size = m.inter_size;
  }
  return {};
}

Status DeriveSharedExperts(ModelConfig& m, JsonView source) {
  const JsonView count = source.FirstPresent({"n_shared_experts", "num_shared_experts"});
  if (count.exists()) {
    IC_ASSIGN(m.shared_experts, ToSize(count, "n_shared_experts"));
    return {};
  }
  const JsonView width = source.FirstTruthy(
      {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"});
  IC_ASSIGN(const std::int64_t size, SizeOrZero(width, "shared_expert_intermediate_size"));
  if (size > 0 && m.moe_inter_size > 0) {
    m.shared_experts = std::max<std::int64_t>(1, size / m.moe_inter_size);
  }
  return {};
}

Status DeriveMoeLayers(ModelConfig& m, JsonView source) {
  if (m.num_experts == 0 || m.topk == 0) return {};
  const JsonView frequency = source["moe_layer_freq"];
  if (frequency.is_array()) {
    for (std::size_t i = 0; i < frequency.size(); ++i) {
      m.moe_layers += frequency.Item(i).Truthy() ? 1 : 0;
    }
    return {};
  }
  IC_ASSIGN(const std::int64_t first, ReadSize(source, "first_k_dense_replace"));
  IC_ASSIGN(const std::int64_t every, ReadSize(source, "moe_layer_freq", 1));
  if (every <= 1) {
    m.moe_layers = std::max<std::int64_t>(0, m.layers - first);
  } else {
    for (std::int64_t i = first; i < m.layers; ++i) m.moe_layers += i % every == 0 ? 1 : 0;
  }
  return {};
}

// A checkpoint whose formats no mode stands for can still be read; building it is the error.
void ReadQuantisation(ModelConfig& m) {
  m.quant = ReadCheckpointQuant(m.root());
  Result<QuantOverrides> inferred = InferQuantModes(m.root(), m.quant, m.architecture);
  if (inferred) {
    m.inferred_quant = *inferred;
  } else {
    m.quant_error = inferred.error();
  }
}

}  // namespace

bool ModelConfig::IsMoe() const {
  return family->is_moe != nullptr ? family->is_moe(*this) : family->is_moe_always;
}

ModelFamily ModelConfig::family_id() const { return family->id; }

Result<std::int64_t> ToSize(JsonView value, std::string_view what) {
  const std::optional<std::int64_t> size = value.AsInteger();
  if (!size || *size < 0 || *size > kLargestSize) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("{} must be a whole number from 0 to {}, got {}", what, kLargestSize,
                            value.Display()));
  }
  return *size;
}

Result<std::int64_t> ReadSize(JsonView source, std::string_view key, std::int64_t fallback) {
  const JsonView value = source[key];
  if (!value.is_present()) return fallback;
  return ToSize(value, key);
}

Result<std::int64_t> RequireSize(JsonView source, std::string_view key) {
  const JsonView value = source[key];
  if (!value.is_present()) {
    return Fail(ErrorKind::kModelConfig, fmt::format("the configuration lacks {}", key));
  }
  return ToSize(value, key);
}

Result<ModelConfig> ParseModelConfig(std::string name, std::shared_ptr<const JsonDocument> document,
                                     UnlistedArchitecture unlisted) {
  ModelConfig m;
  m.name = std::move(name);
  m.document = std::move(document);
  const JsonView root = m.root();
  if (!root.is_object()) {
    return Fail(ErrorKind::kModelConfig, "the configuration is not a JSON object");
  }
  const JsonView architectures = root["architectures"];
  if (!architectures.is_array() || architectures.size() == 0 || !architectures.Item(0).is_text()) {
    return Fail(ErrorKind::kModelConfig, "the configuration lacks architectures");
  }
  m.architecture = *architectures.Item(0).AsText();
  m.family = FindFamily(m.architecture);
  if (m.family == nullptr && unlisted == UnlistedArchitecture::kMap) {
    IC_RETURN_IF_ERROR(MapUnlistedArchitecture(m));
    IC_RETURN_IF_ERROR(CheckLayers(m));
    ReadQuantisation(m);
    return m;
  }
  if (m.family == nullptr) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("architecture {} is not supported; supported are {}", m.architecture,
                            SupportedArchitectures()));
  }
  const auto architecture = std::ranges::find(m.family->architectures, m.architecture,
                                              [](const Architecture& a) { return a.name; });
  JsonView source = root;
  JsonView moe_source = root;
  if (const JsonView text = root["text_config"]; architecture->nested && text.exists()) {
    if (!text.is_object()) {
      return Fail(ErrorKind::kModelConfig, "text_config is not a JSON object");
    }
    source = text;
    moe_source = text;
  }
  m.decoder_node = source.node();

  IC_RETURN_IF_ERROR(ReadCommonSizes(m, source));
  IC_RETURN_IF_ERROR(DeriveSharedExperts(m, moe_source));
  IC_RETURN_IF_ERROR(DeriveMoeLayers(m, moe_source));
  const JsonView nested = root["text_config"];
  JsonView drafts = nested.is_object() ? nested["num_nextn_predict_layers"] : JsonView();
  if (!drafts.is_present()) drafts = root["num_nextn_predict_layers"];
  IC_ASSIGN(m.draft_layers, SizeOrZero(drafts, "num_nextn_predict_layers"));

  if (m.family->parse != nullptr) IC_RETURN_IF_ERROR(m.family->parse(m));

  ReadQuantisation(m);
  return m;
}

}  // namespace infercast
