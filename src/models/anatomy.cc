// Layer kinds by the keys that checkpoints of the field use for them; parameters by the shapes of
// the matrices.
#include "models/anatomy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/generic_architecture.h"
#include "operators/bound_operator.h"

namespace infercast {

namespace {

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Feed-forwards without a gate have two matrices instead of three.
bool IsGated(const ModelConfig& m) {
  return m.family_id() != ModelFamily::kGpt && m.family_id() != ModelFamily::kNemotronH &&
         m.architecture != "NemotronForCausalLM";
}

// Configurations leave tie_word_embeddings out where it has their architecture's default.
bool TiesByDefault(std::string_view architecture) {
  constexpr std::array<std::string_view, 12> kTied = {
      "GPT2LMHeadModel",       "OPTForCausalLM",
      "BloomForCausalLM",      "MPTForCausalLM",
      "GemmaForCausalLM",      "Gemma2ForCausalLM",
      "Gemma3ForCausalLM",     "Gemma3ForConditionalGeneration",
      "CohereForCausalLM",     "Cohere2ForCausalLM",
      "Starcoder2ForCausalLM", "GPTBigCodeForCausalLM"};
  return std::ranges::find(kTied, architecture) != kTied.end();
}

class Describer {
 public:
  explicit Describer(const ModelConfig& m) : m_(m), c_(m.decoder()), h_(m.hidden_size) {}

  Result<ModelAnatomy> Describe() {
    const auto layers = static_cast<std::size_t>(m_.layers);
    std::vector<LayerGroup> all(layers);
    for (LayerGroup& layer : all) layer.layers = 1;
    Mixers(all);
    FeedForwards(all);
    if (error_) return std::unexpected(*error_);
    for (const LayerGroup& layer : all) {
      const auto same = std::ranges::find_if(
          out_.groups, [&](const LayerGroup& group) { return group.SameKind(layer); });
      if (same == out_.groups.end()) {
        out_.groups.push_back(layer);
      } else {
        ++same->layers;
      }
    }
    Drafts(all.back());
    Embeddings();
    if (error_) return std::unexpected(*error_);
    return std::move(out_);
  }

 private:
  std::int64_t Size(std::string_view key, std::int64_t fallback = 0) {
    return SizeOf(c_, key, fallback);
  }
  std::int64_t SizeOf(JsonView source, std::string_view key, std::int64_t fallback = 0) {
    const Result<std::int64_t> size = ReadSize(source, key, fallback);
    if (size) return *size;
    if (!error_) error_ = size.error();
    return fallback;
  }
  // Products of more than two sizes are made of these: they may not fit 64 bits.
  static double D(std::int64_t value) { return static_cast<double>(value); }

  // --- attention and its relatives ---

  LayerGroup GroupedQuery(LayerGroup layer, std::int64_t heads, std::int64_t kv_heads,
                          std::int64_t dim, std::int64_t v_dim) const {
    layer.mixer = Mixer::kFull;
    layer.heads = heads;
    layer.kv_heads = kv_heads;
    layer.head_dim = dim;
    layer.v_dim = v_dim;
    layer.kv_elements = kv_heads * (dim + v_dim);
    layer.mixer_params = D(h_) * (D(heads * dim) + D(kv_heads * (dim + v_dim)) + D(heads * v_dim));
    return layer;
  }

  LayerGroup Latent(LayerGroup layer) {
    const std::int64_t q_rank = Size("q_lora_rank");
    const std::int64_t kv_rank = Size("kv_lora_rank", 512);
    const std::int64_t rope = Size("qk_rope_head_dim", 64);
    const std::int64_t nope = Size("qk_nope_head_dim", 128);
    const std::int64_t v_dim = Size("v_head_dim", 128);
    const std::int64_t n = m_.heads;
    layer.mixer = Mixer::kLatent;
    layer.heads = n;
    layer.kv_heads = 1;
    layer.head_dim = nope + rope;
    layer.v_dim = v_dim;
    layer.kv_by_heads = false;
    layer.kv_elements = kv_rank + rope;
    const double query = q_rank > 0 ? D(h_ * q_rank) + D(q_rank) * D(n * (nope + rope))
                                    : D(h_) * D(n * (nope + rope));
    layer.mixer_params = query + D(h_ * (kv_rank + rope)) + D(kv_rank) * D(n * (nope + v_dim)) +
                         D(n * v_dim) * D(h_);
    if (c_["mla_use_output_gate"].Truthy()) layer.mixer_params += D(n * v_dim) * D(h_);
    const std::int64_t index_heads = Size("index_n_heads");
    if (const std::int64_t index = Size("index_head_dim"); index > 0 && index_heads > 0) {
      layer.mixer = Mixer::kSparseLatent;
      layer.kv_elements = kv_rank;
      // The rotary key in 16 bits; the indexer's key in fp8 with a scale for every 128 values.
      layer.kv_fixed_bytes = rope * 2 + index + CeilDivide(index, 128) * 4;
      layer.mixer_params +=
          D(q_rank) * D(index_heads * index) + D(h_ * index) + D(h_ * index_heads);
    }
    return layer;
  }

  // DeepSeek-V4: the cache has its own rule (the family's); what is here are the projections.
  LayerGroup Compressed(LayerGroup layer) {
    const std::int64_t q_rank = Size("q_lora_rank");
    const std::int64_t o_rank = Size("o_lora_rank");
    const std::int64_t o_groups = std::max<std::int64_t>(1, Size("o_groups", 1));
    const std::int64_t n = m_.heads;
    const std::int64_t d = m_.head_dim;
    layer.mixer = Mixer::kCompressed;
    layer.heads = n;
    layer.kv_heads = 1;
    layer.head_dim = d;
    layer.v_dim = d;
    layer.window = Size("sliding_window");
    layer.kv_by_heads = false;
    layer.mixer_params = D(h_ * q_rank) + D(q_rank) * D(n * d) + D(h_ * d) + D(n * d) * D(o_rank) +
                         D(o_groups * o_rank) * D(h_);
    return layer;
  }

  LayerGroup Mamba(LayerGroup layer) {
    const std::int64_t heads = Size("mamba_num_heads");
    const std::int64_t dim = Size("mamba_head_dim");
    const std::int64_t state = Size("ssm_state_size");
    const std::int64_t groups = Size("n_groups", 1);
    const std::int64_t kernel = Size("conv_kernel", 4);
    const std::int64_t inner = heads * dim;
    const std::int64_t channels = inner + 2 * groups * state;
    layer.mixer = Mixer::kMamba2;
    layer.heads = heads;
    layer.kv_heads = 0;
    layer.head_dim = dim;
    layer.mixer_params =
        D(h_) * D(inner + channels + heads) + D(channels) * D(kernel) + D(inner) * D(h_);
    const bool half = c_["mamba_ssm_cache_dtype"].AsText().value_or("float32") == "bfloat16";
    layer.state_bytes = D(inner) * D(state) * (half ? 2 : 4) + D(channels) * D((kernel - 1) * 2);
    return layer;
  }

  LayerGroup GatedDelta(LayerGroup layer) {
    const std::int64_t k_heads = Size("linear_num_key_heads");
    const std::int64_t v_heads = Size("linear_num_value_heads");
    const std::int64_t k_dim = Size("linear_key_head_dim");
    const std::int64_t v_dim = Size("linear_value_head_dim");
    const std::int64_t kernel = Size("linear_conv_kernel_dim", 4);
    const std::int64_t channels = 2 * k_heads * k_dim + v_heads * v_dim;
    layer.mixer = Mixer::kLinear;
    layer.heads = v_heads;
    layer.kv_heads = 0;
    layer.head_dim = v_dim;
    layer.mixer_params = D(h_) * D(channels + v_heads * v_dim + 2 * v_heads) +
                         D(channels) * D(kernel) + D(v_heads * v_dim) * D(h_);
    const bool half = c_["mamba_ssm_dtype"].AsText().value_or("float32") == "bfloat16";
    layer.state_bytes =
        D(v_heads * k_dim) * D(v_dim) * (half ? 2 : 4) + D(channels) * D((kernel - 1) * 2);
    return layer;
  }

  // Kimi delta attention: queries, keys, values, a decay and an output gate of full or low rank.
  LayerGroup KimiDelta(LayerGroup layer) {
    const JsonView linear = c_["linear_attn_config"];
    const std::int64_t heads = SizeOf(linear, "num_heads", m_.heads);
    const std::int64_t dim = SizeOf(linear, "head_dim", 128);
    const std::int64_t kernel = SizeOf(linear, "short_conv_kernel_size", 4);
    const std::int64_t width = heads * dim;
    layer.mixer = Mixer::kLinear;
    layer.heads = heads;
    layer.kv_heads = 0;
    layer.head_dim = dim;
    const double low_rank = D(h_ * dim) + D(dim) * D(width);
    const double gate = linear["use_full_rank_gate"].Truthy() ? D(h_) * D(width) : low_rank;
    layer.mixer_params = 3 * D(h_) * D(width) + low_rank + gate + D(h_ * heads) +
                         D(3 * width) * D(kernel) + D(width) * D(h_);
    layer.state_bytes = D(width) * D(dim) * 4 + D((kernel - 1) * 3) * D(width * 2);
    return layer;
  }

  // Which layers see only a window, by whatever key the checkpoint says it.
  std::vector<bool> SlidingLayers(std::int64_t& window) {
    std::vector<bool> sliding(static_cast<std::size_t>(m_.layers), false);
    window = Size("sliding_window");
    if (window == 0) window = Size("sliding_window_size");
    if (m_.architecture == "Llama4ForConditionalGeneration") {
      // Three chunked layers, then one that sees everything.
      window = Size("attention_chunk_size", 8192);
      for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = (i + 1) % 4 != 0;
      return sliding;
    }
    const JsonView types = c_["layer_types"];
    const JsonView pattern = c_["hybrid_layer_pattern"];
    if (types.is_array() && types.size() >= sliding.size()) {
      for (std::size_t i = 0; i < sliding.size(); ++i) {
        const std::string_view type = types.Item(i).AsText().value_or("");
        sliding[i] = type.find("sliding") != type.npos || type.find("chunked") != type.npos;
      }
    } else if (pattern.is_array() && pattern.size() == sliding.size()) {
      for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = pattern.Item(i).Truthy();
    } else if (window > 0 && c_["use_sliding_window"].AsBool() != false) {
      std::int64_t every = Size("sliding_window_pattern");
      if (every == 0) every = m_.architecture == "Gemma2ForCausalLM" ? 2 : 0;
      if (every == 0 && m_.architecture.starts_with("Gemma3")) every = 6;
      for (std::size_t i = 0; i < sliding.size(); ++i) {
        sliding[i] = every == 0 || static_cast<std::int64_t>(i + 1) % every != 0;
      }
      if (every == 0 && m_.context > 0 && window >= m_.context) {
        sliding.assign(sliding.size(), false);
      }
    }
    if (window == 0) sliding.assign(sliding.size(), false);
    return sliding;
  }

  void PlainMixers(std::vector<LayerGroup>& all) {
    std::int64_t window = 0;
    const std::vector<bool> sliding = SlidingLayers(window);
    const bool gemma4 = m_.family_id() == ModelFamily::kGemma4Mix;
    const std::int64_t kv_heads = m_.kv_heads > 0 ? m_.kv_heads : m_.heads;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::int64_t heads = m_.heads, kv = kv_heads, dim = m_.head_dim;
      std::int64_t v_dim = Size("v_head_dim", dim);
      if (sliding[i]) {
        heads = Size("swa_num_attention_heads", heads);
        kv = Size("swa_num_key_value_heads", kv);
        dim = Size("swa_head_dim", dim);
        v_dim = Size("swa_v_head_dim", v_dim);
      } else if (gemma4) {
        kv = Size("num_global_key_value_heads", kv);
        dim = v_dim = Size("global_head_dim", dim);
      }
      all[i] = GroupedQuery(all[i], heads, kv, dim, v_dim);
      if (gemma4 && !sliding[i] && c_["attention_k_eq_v"].Truthy()) {
        all[i].kv_elements = kv * dim;  // one tensor serves as keys and values
        all[i].mixer_params -= D(h_) * D(kv * v_dim);
      }
      // An output gate is a second query projection.
      if (c_["attn_output_gate"].Truthy()) all[i].mixer_params += D(h_) * D(heads * dim);
      if (sliding[i]) {
        all[i].mixer = Mixer::kSliding;
        all[i].window = window;
      }
    }
    const JsonView sparse = c_["sparse_attention_config"];
    if (!sparse["use_sparse_attention"].Truthy()) return;
    const std::int64_t index_dim = SizeOf(sparse, "sparse_index_dim");
    const std::int64_t index_heads = SizeOf(sparse, "sparse_num_index_heads");
    const JsonView frequency = sparse["sparse_attention_freq"];
    for (std::size_t i = 0; i < all.size() && i < frequency.size(); ++i) {
      if (!frequency.Item(i).Truthy()) continue;
      all[i].mixer_params += D(h_) * D(index_heads * index_dim + index_dim);
    }
    out_.notes.push_back("the keys of the block selector are not counted in the cache");
  }

  void Mixers(std::vector<LayerGroup>& all) {
    switch (m_.family_id()) {
      case ModelFamily::kDeepseek:
      case ModelFamily::kKimiK25:
      case ModelFamily::kDeepseekV32:
        for (LayerGroup& layer : all) layer = Latent(layer);
        return;
      case ModelFamily::kDeepseekV4:
        for (LayerGroup& layer : all) layer = Compressed(layer);
        out_.notes.push_back("compressors and indexers are not counted in the parameters");
        return;
      case ModelFamily::kKimiK3: {
        const JsonView full = c_["linear_attn_config"]["full_attn_layers"];
        std::vector<bool> latent(all.size(), false);
        for (std::size_t i = 0; i < full.size(); ++i) {
          const std::int64_t layer = full.Item(i).AsInteger().value_or(0);  // counted from 1
          if (layer >= 1 && layer <= m_.layers) latent[static_cast<std::size_t>(layer - 1)] = true;
        }
        for (std::size_t i = 0; i < all.size(); ++i) {
          all[i] = latent[i] ? Latent(all[i]) : KimiDelta(all[i]);
        }
        return;
      }
      case ModelFamily::kQwen35: {
        PlainMixers(all);
        const JsonView types = c_["layer_types"];
        const std::int64_t every = std::max<std::int64_t>(1, Size("full_attention_interval", 4));
        for (std::size_t i = 0; i < all.size(); ++i) {
          const bool linear = types.is_array() && i < types.size()
                                  ? types.Item(i).AsText() == "linear_attention"
                                  : static_cast<std::int64_t>(i + 1) % every != 0;
          if (linear) all[i] = GatedDelta(LayerGroup{.layers = 1});
        }
        return;
      }
      default:
        PlainMixers(all);
    }
  }

  // --- feed-forwards ---

  void SetDense(LayerGroup& layer, std::int64_t inter) const {
    layer.feed_forward = inter > 0 ? FeedForward::kDense : FeedForward::kNone;
    layer.inter = inter;
    layer.dense_params = (IsGated(m_) ? 3 : 2) * D(h_) * D(inter);
    layer.expert_params = 0;
  }

  void SetExperts(LayerGroup& layer) {
    layer.feed_forward = FeedForward::kExperts;
    layer.experts = m_.num_experts;
    layer.topk = m_.topk > 0 ? m_.topk : Size("num_experts_per_token");
    layer.inter = m_.moe_inter_size;
    layer.shared_inter = SharedWidth();
    const double matrices = IsGated(m_) ? 3 : 2;
    // Experts may work in a narrower space than the residual.
    std::int64_t latent = Size("moe_latent_size");
    if (latent == 0) latent = Size("routed_expert_hidden_size");
    const double width = D(latent > 0 ? latent : h_);
    layer.expert_params = D(m_.num_experts) * matrices * width * D(layer.inter);
    layer.dense_params = D(m_.num_experts) * D(h_) + matrices * D(h_) * D(layer.shared_inter);
    if (latent > 0) layer.dense_params += 2 * D(h_) * D(latent);
  }

  std::int64_t SharedWidth() {
    if (m_.architecture == "Llama4ForConditionalGeneration") return m_.inter_size;
    const Result<std::int64_t> width = SharedExpertWidth(c_, m_.moe_inter_size);
    if (width) return *width;
    if (!error_) error_ = width.error();
    return 0;
  }

  std::int64_t DenseWidth() {
    for (const std::string_view key : {"dense_intermediate_size", "intermediate_size_mlp"}) {
      if (c_[key].Truthy()) return Size(key);
    }
    return m_.inter_size;
  }

  std::vector<bool> RoutedLayers() {
    std::vector<bool> routed(static_cast<std::size_t>(m_.layers), m_.num_experts > 1);
    if (m_.num_experts <= 1) return routed;
    const JsonView frequency = c_["moe_layer_freq"];
    const JsonView types = c_["mlp_layer_types"];
    const JsonView dense = c_["mlp_only_layers"];
    const std::int64_t first = Size("first_k_dense_replace", Size("moe_layer_start_index"));
    std::int64_t every = frequency.is_array() ? 1 : Size("moe_layer_freq", 1);
    every = std::max(every, Size("interleave_moe_layer_step", 1));
    every = std::max(every, Size("decoder_sparse_step", 1));
    for (std::size_t i = 0; i < routed.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      routed[i] = at >= first && (every <= 1 || (at + 1) % every == 0);
      if (frequency.is_array() && i < frequency.size()) routed[i] = frequency.Item(i).Truthy();
      if (types.is_array() && i < types.size()) routed[i] = types.Item(i).AsText() == "sparse";
    }
    for (std::size_t i = 0; i < dense.size(); ++i) {
      const std::int64_t at = dense.Item(i).AsInteger().value_or(-1);
      if (at >= 0 && at < m_.layers) routed[static_cast<std::size_t>(at)] = false;
    }
    return routed;
  }

  void FeedForwards(std::vector<LayerGroup>& all) {
    if (m_.family_id() == ModelFamily::kNemotronH) return Pattern(all);
    if (c_["block_configs"].is_array()) return SearchedBlocks(all);
    const std::vector<bool> routed = RoutedLayers();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (routed[i]) {
        SetExperts(all[i]);
        // Gemma-4 runs its experts beside the dense feed-forward.
        if (m_.family_id() == ModelFamily::kGemma4Mix) {
          all[i].dense_params += 3 * D(h_) * D(m_.inter_size);
        }
      } else {
        SetDense(all[i], DenseWidth());
      }
    }
  }

  // Nemotron-H: a layer is one thing, named by a letter.
  void Pattern(std::vector<LayerGroup>& all) {
    const std::string_view text = c_["hybrid_override_pattern"].AsText().value_or("");
    const JsonView blocks = c_["layers_block_type"];
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string_view kind = i < text.size() ? text.substr(i, 1) : "";
      if (kind.empty() && i < blocks.size()) kind = blocks.Item(i).AsText().value_or("");
      LayerGroup layer{.layers = 1};
      if (kind == "M" || kind == "mamba") {
        layer = Mamba(layer);
        layer.feed_forward = FeedForward::kNone;
      } else if (kind == "*" || kind == "attention") {
        layer = all[i];
        layer.feed_forward = FeedForward::kNone;
      } else {
        layer.mixer = Mixer::kNone;
        if (kind == "E" || kind == "moe") {
          SetExperts(layer);
        } else {
          SetDense(layer, m_.inter_size);
        }
      }
      all[i] = layer;
    }
  }

  // Nemotron-NAS: every block has sizes of its own, or nothing at all.
  void SearchedBlocks(std::vector<LayerGroup>& all) {
    const JsonView blocks = c_["block_configs"];
    for (std::size_t i = 0; i < all.size() && i < blocks.size(); ++i) {
      const JsonView attention = blocks.Item(i)["attention"];
      const JsonView ffn = blocks.Item(i)["ffn"];
      const std::int64_t in_group = attention["n_heads_in_group"].AsInteger().value_or(0);
      if (attention["no_op"].Truthy() || in_group <= 0) {
        const bool linear = attention["replace_with_linear"].Truthy();
        all[i] = LayerGroup{.layers = 1, .mixer = Mixer::kNone};
        if (linear) all[i].mixer_params = D(h_) * D(h_);
      } else {
        all[i] = GroupedQuery(all[i], m_.heads, m_.heads / in_group, m_.head_dim, m_.head_dim);
      }
      const double multiplier = ffn["ffn_mult"].AsNumber().value_or(0);
      if (ffn["no_op"].Truthy() || !(multiplier > 0)) {
        SetDense(all[i], 0);
      } else if (const double wide = 2 * multiplier * D(h_) / 3; wide > 0x1p53) {
        error_ = Error{ErrorKind::kModelConfig,
                       fmt::format("ffn_mult {} makes a feed-forward too wide", multiplier)};
      } else {
        const auto width = static_cast<std::int64_t>(wide);
        SetDense(all[i], CeilDivide(width, 256) * 256);
      }
    }
  }

  // --- what is not a layer ---

  void Drafts(const LayerGroup& last) {
    std::int64_t drafts = m_.draft_layers;
    if (drafts == 0) drafts = Size("mtp_num_hidden_layers");
    if (drafts == 0) return;
    LayerGroup layer = last;
    layer.layers = drafts;
    if (last.mixer == Mixer::kMamba2 || last.mixer == Mixer::kNone) {
      for (const LayerGroup& group : out_.groups) {
        if (group.mixer != Mixer::kFull) continue;
        layer = group;
        layer.layers = drafts;
        SetExperts(layer);
      }
    }
    out_.draft = layer;
    out_.draft_projection_params = D(drafts) * 2 * D(h_) * D(h_);
  }

  void Embeddings() {
    out_.embedding_params = D(m_.vocab) * D(h_);
    JsonView tie = c_["tie_word_embeddings"];
    if (!tie.is_present()) tie = m_.root()["tie_word_embeddings"];
    out_.tied = tie.is_present() ? tie.Truthy() : TiesByDefault(m_.architecture);
    out_.head_params = out_.tied ? 0 : out_.embedding_params;
    if (m_.root()["vision_config"].is_object()) {
      out_.notes.push_back("the vision tower is not counted");
    }
  }

  const ModelConfig& m_;
  JsonView c_;
  std::int64_t h_;
  ModelAnatomy out_;
  std::optional<Error> error_;
};

}  // namespace

std::string_view MixerName(Mixer mixer) {
  switch (mixer) {
    case Mixer::kFull:
      return "full attention";
    case Mixer::kSliding:
      return "sliding-window attention";
    case Mixer::kLatent:
      return "latent attention";
    case Mixer::kSparseLatent:
      return "sparse latent attention";
    case Mixer::kCompressed:
      return "compressed attention";
    case Mixer::kMamba2:
      return "Mamba-2";
    case Mixer::kLinear:
      return "linear attention";
    case Mixer::kNone:
      return "no attention";
  }
  return "";
}

double LayerGroup::Params() const {
  return static_cast<double>(layers) * (mixer_params + dense_params + expert_params);
}

bool LayerGroup::SameKind(const LayerGroup& o) const {
  return mixer == o.mixer && heads == o.heads && kv_heads == o.kv_heads && head_dim == o.head_dim &&
         v_dim == o.v_dim && window == o.window && kv_elements == o.kv_elements &&
         feed_forward == o.feed_forward && inter == o.inter && experts == o.experts &&
         shared_inter == o.shared_inter && mixer_params == o.mixer_params;
}

std::int64_t ModelAnatomy::Layers() const {
  std::int64_t layers = 0;
  for (const LayerGroup& group : groups) layers += group.layers;
  return layers;
}

double ModelAnatomy::TotalParams() const {
  double total = embedding_params + head_params;
  for (const LayerGroup& g : groups) total += g.Params();
  return total;
}

double ModelAnatomy::ActiveParams() const {
  double total = tied ? embedding_params : head_params;
  for (const LayerGroup& g : groups) {
    const double visited = g.experts > 0 ? g.expert_params * static_cast<double>(g.topk) /
                                               static_cast<double>(g.experts)
                                         : 0;
    total += static_cast<double>(g.layers) * (g.mixer_params + g.dense_params + visited);
  }
  return total;
}

double ModelAnatomy::DraftParams() const {
  return draft ? draft->Params() + draft_projection_params : 0;
}

Result<ModelAnatomy> DescribeModel(const ModelConfig& model) { return Describer(model).Describe(); }

double KvBytesPerToken(const LayerGroup& group, std::int64_t tp, double element_bytes) {
  double elements = static_cast<double>(group.kv_elements);
  if (group.kv_by_heads && group.kv_heads > 0) {
    elements = elements / static_cast<double>(group.kv_heads) *
               static_cast<double>(CeilDivide(group.kv_heads, tp));
  }
  return elements * element_bytes + static_cast<double>(group.kv_fixed_bytes);
}

double StateBytes(const LayerGroup& group, std::int64_t tp) {
  return group.state_bytes / static_cast<double>(tp);
}

double DraftWeightBytes(const ModelAnatomy& anatomy, const ModelPlan& plan) {
  if (!anatomy.draft) return 0;
  const LayerGroup& d = *anatomy.draft;
  const double dense = Profile(plan.quant.gemm).memory;
  const double experts = Profile(plan.quant.moe).memory;
  const double layers = static_cast<double>(d.layers);
  const double tp = static_cast<double>(plan.layout.tp);
  const double split =
      static_cast<double>(plan.layout.moe_tp.value_or(1) * plan.layout.moe_ep.value_or(1));
  return layers * (d.mixer_params + d.dense_params) / tp * dense +
         layers * d.expert_params / split * experts + anatomy.draft_projection_params * dense;
}

}  // namespace infercast
