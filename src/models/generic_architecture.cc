// Mapping of unlisted decoders onto the dense and MoE builders.
#include "models/generic_architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "models/families.h"

namespace infercast {

namespace {

// Feed-forwards without a gate: two matrices instead of three.
constexpr std::array<std::string_view, 14> kUngated = {
    "GPT2LMHeadModel",      "GPTBigCodeForCausalLM", "GPTNeoForCausalLM", "GPTNeoXForCausalLM",
    "GPTJForCausalLM",      "BloomForCausalLM",      "FalconForCausalLM", "RWForCausalLM",
    "MPTForCausalLM",       "OPTForCausalLM",        "PhiForCausalLM",    "Starcoder2ForCausalLM",
    "PersimmonForCausalLM", "ArceeForCausalLM"};

class Reader {
 public:
  explicit Reader(JsonView source) : source_(source) {}

  // First of the spellings that holds a number; a missing one is remembered under the first.
  Result<std::int64_t> Need(std::initializer_list<std::string_view> keys) {
    const JsonView value = source_.FirstPresent(keys);
    if (!value.exists()) {
      missing_.emplace_back(*keys.begin());
      return 0;
    }
    return ToSize(value, *keys.begin());
  }
  Result<std::int64_t> Read(std::initializer_list<std::string_view> keys, std::int64_t fallback) {
    const JsonView value = source_.FirstPresent(keys);
    if (!value.exists()) return fallback;
    return ToSize(value, *keys.begin());
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  JsonView source_;
  std::vector<std::string> missing_;
};

}  // namespace

Result<std::int64_t> SharedExpertWidth(JsonView decoder, std::int64_t expert_inter) {
  // Widths of one shared expert, or of all where no number is given.
  const JsonView width =
      decoder.FirstTruthy({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                           "shared_expert_ffn_hidden_size"});
  // Widths of all of them, whatever the number.
  const JsonView whole = decoder.FirstTruthy({"shared_intermediate_size", "share_expert_dim"});
  if (whole.exists()) return ToSize(whole, "shared_intermediate_size");
  JsonView count = decoder.FirstTruthy(
      {"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"});
  if (count.is_array()) count = count.Item(0);  // one number a layer
  std::int64_t experts = width.exists() ? 1 : 0;
  if (count.exists()) {
    IC_ASSIGN(experts, ToSize(count, "n_shared_experts"));
  }
  std::int64_t inter = expert_inter;
  if (width.exists()) {
    IC_ASSIGN(inter, ToSize(width, "shared_expert_intermediate_size"));
  }
  return experts * inter;
}

Status MapUnlistedArchitecture(ModelConfig& m) {
  JsonView source = m.root();
  if (const JsonView text = source["text_config"]; text.is_object()) {
    if (!source["hidden_size"].is_present()) source = text;
  }
  m.decoder_node = source.node();
  for (const std::string_view key : {"kv_lora_rank", "ssm_state_size", "linear_attn_config"}) {
    if (source[key].Truthy()) {
      return Fail(ErrorKind::kUnsupportedModel,
                  fmt::format("architecture {} is not supported: {} tells of an attention or state "
                              "that the generic builders do not have",
                              m.architecture, key));
    }
  }
  Reader reader(source);
  IC_ASSIGN(m.layers, reader.Need({"num_hidden_layers", "n_layer", "num_layers", "n_layers"}));
  IC_ASSIGN(m.hidden_size, reader.Need({"hidden_size", "n_embd", "n_embed", "d_model"}));
  IC_ASSIGN(m.heads, reader.Need({"num_attention_heads", "n_head", "num_heads", "n_heads"}));
  IC_ASSIGN(m.vocab, reader.Need({"vocab_size", "padded_vocab_size"}));
  if (!reader.missing().empty()) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("architecture {} is not supported, and its configuration lacks what a "
                            "generic decoder needs: {}",
                            m.architecture, fmt::join(reader.missing(), ", ")));
  }
  if (m.layers == 0 || m.hidden_size == 0 || m.heads == 0 || m.vocab == 0) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("the configuration has no model: {} layers, hidden size {}, {} heads, "
                            "vocabulary {}",
                            m.layers, m.hidden_size, m.heads, m.vocab));
  }
  IC_ASSIGN(m.context, reader.Read({"max_position_embeddings", "n_positions", "seq_length",
                                    "max_seq_len", "n_ctx", "max_sequence_length"},
                                   0));
  const bool one_kv_head =
      source["multi_query"].Truthy() && !source["new_decoder_architecture"].Truthy();
  IC_ASSIGN(m.kv_heads, reader.Read({"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                     "multi_query_group_num"},
                                    m.heads));
  if (one_kv_head) m.kv_heads = 1;
  IC_ASSIGN(m.head_dim, reader.Read({"head_dim", "attention_head_dim", "kv_channels"}, 0));
  if (m.head_dim == 0) m.head_dim = m.hidden_size / m.heads;
  IC_ASSIGN(m.inter_size,
            reader.Read({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"},
                        4 * m.hidden_size));

  IC_ASSIGN(
      m.num_experts,
      reader.Read({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"}, 0));
  if (m.num_experts > 1) {
    IC_ASSIGN(m.topk, reader.Need({"num_experts_per_tok", "top_k_experts", "moe_top_k",
                                   "num_experts_per_token", "moe_topk", "moe_k"}));
    if (!reader.missing().empty()) {
      return Fail(ErrorKind::kUnsupportedModel,
                  fmt::format("architecture {} is not supported, and its configuration does not "
                              "say how many experts a token visits (num_experts_per_tok)",
                              m.architecture));
    }
    IC_ASSIGN(m.moe_inter_size,
              reader.Read({"moe_intermediate_size", "expert_intermediate_size"}, m.inter_size));
    m.family = &kMoeFamily;
    auto record = std::make_shared<GenericMoe>();
    IC_ASSIGN(record->shared_inter, SharedExpertWidth(source, m.moe_inter_size));
    if (m.moe_inter_size > 0) {
      m.shared_experts = (record->shared_inter + m.moe_inter_size - 1) / m.moe_inter_size;
    }
    IC_ASSIGN(const std::int64_t dense, reader.Read({"first_k_dense_replace"}, 0));
    record->dense_layers = std::min(dense, m.layers);
    m.moe_layers = m.layers - record->dense_layers;
    m.record = std::move(record);
  } else {
    m.num_experts = 0;
    const bool ungated = std::ranges::find(kUngated, m.architecture) != kUngated.end();
    m.family = ungated ? &kGptFamily : &kLlamaFamily;
  }
  m.notes.insert(
      m.notes.begin(),
      fmt::format("architecture {} is not listed: built as a generic {} decoder of the {} family",
                  m.architecture, m.num_experts > 0 ? "mixture-of-experts" : "dense",
                  ToString(m.family->id)));
  if (source["sliding_window"].Truthy() && source["use_sliding_window"].AsBool() != false) {
    m.notes.push_back("every layer is priced with full attention, sliding windows included");
  }
  return {};
}

}  // namespace infercast
