// DeepSeek-V4: attention over compressed positions (a 4-fold compression with an indexer, a
// 128-fold one without), hyper-connections in place of plain residuals, one shared expert beside
// the routed ones. Layers of a compression ratio are priced as one group, so their order does not
// matter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "models/blocks/mlp.h"
#include "models/blocks/moe.h"
#include "models/families.h"

namespace infercast {

namespace {

constexpr std::int64_t kIndexed = 4;     // compression ratio of the layers with an indexer
constexpr std::int64_t kStrong = 128;    // ratio of the layers without
constexpr std::int64_t kWindowOnly = 0;  // layers that keep nothing but the sliding window

struct DeepseekV4Record : FamilyRecord {
  std::int64_t q_rank = 0, o_rank = 0, o_groups = 0;
  std::int64_t head_dim = 0, rope_head_dim = 0;
  std::int64_t index_head_dim = 0, index_heads = 0, index_topk = 0;
  std::int64_t window = 0;
  std::int64_t connections = 0, sinkhorn_iters = 0;  // hyper-connections
  // Layers of each compression ratio, in the order in which the ratios first appear.
  std::vector<std::pair<std::int64_t, std::int64_t>> ratios;

  std::int64_t LayersOf(std::int64_t ratio) const {
    const auto found = std::ranges::find(ratios, ratio, [](const auto& r) { return r.first; });
    return found == ratios.end() ? 0 : found->second;
  }
};

Status ReadRatios(DeepseekV4Record& record, JsonView source, std::int64_t layers) {
  const JsonView list = source["compress_ratios"];
  if (!list.is_array()) {
    return Fail(ErrorKind::kModelConfig, "the configuration lacks the list compress_ratios");
  }
  if (static_cast<std::int64_t>(list.size()) < layers) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("compress_ratios has {} entries for {} layers", list.size(), layers));
  }
  // Entries beyond the last layer belong to draft layers.
  for (std::size_t i = 0; i < static_cast<std::size_t>(layers); ++i) {
    IC_ASSIGN(const std::int64_t ratio, ToSize(list.Item(i), "an entry of compress_ratios"));
    const auto found =
        std::ranges::find(record.ratios, ratio, [](const auto& r) { return r.first; });
    if (found == record.ratios.end()) {
      record.ratios.emplace_back(ratio, 1);
    } else {
      ++found->second;
    }
  }
  return {};
}

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<DeepseekV4Record>();
  const JsonView source = m.decoder();
  IC_ASSIGN(record->q_rank, RequireSize(source, "q_lora_rank"));
  IC_ASSIGN(record->o_rank, RequireSize(source, "o_lora_rank"));
  IC_ASSIGN(record->o_groups, RequireSize(source, "o_groups"));
  IC_ASSIGN(record->head_dim, RequireSize(source, "head_dim"));
  IC_ASSIGN(record->rope_head_dim, RequireSize(source, "qk_rope_head_dim"));
  IC_ASSIGN(record->index_head_dim, RequireSize(source, "index_head_dim"));
  IC_ASSIGN(record->index_heads, RequireSize(source, "index_n_heads"));
  IC_ASSIGN(record->index_topk, RequireSize(source, "index_topk"));
  IC_ASSIGN(record->window, RequireSize(source, "sliding_window"));
  IC_ASSIGN(record->connections, RequireSize(source, "hc_mult"));
  IC_ASSIGN(record->sinkhorn_iters, RequireSize(source, "hc_sinkhorn_iters"));
  // No influence on the model, but a checkpoint without them is another architecture.
  for (const std::string_view key :
       {"compress_rope_theta", "num_hash_layers", "hc_eps", "n_shared_experts"}) {
    if (!source[key].is_present()) {
      return Fail(ErrorKind::kModelConfig, fmt::format("the configuration lacks {}", key));
    }
  }
  IC_RETURN_IF_ERROR(ReadRatios(*record, source, m.layers));
  m.record = std::move(record);
  return {};
}

// Whether the experts run as one fused kernel that also exchanges the tokens.
bool IsFusedExperts(const BuildContext& b) { return b.options->moe_backend == "megamoe"; }

// --- layers ---

// One operator a ratio. Window-only layers are priced as strongly compressed ones.
std::vector<std::pair<std::int64_t, std::int64_t>> AttentionGroups(const DeepseekV4Record& r) {
  auto groups = r.ratios;
  std::erase_if(groups, [](const auto& group) { return group.first == kWindowOnly; });
  if (const std::int64_t window_only = r.LayersOf(kWindowOnly); window_only > 0) {
    const auto strong =
        std::ranges::find(groups, kStrong, [](const auto& group) { return group.first; });
    if (strong == groups.end()) {
      groups.emplace_back(kStrong, window_only);
    } else {
      strong->second += window_only;
    }
  }
  return groups;
}

template <typename Module>
void AddAttention(OpList& ops, const DeepseekV4Record& r) {
  const BuildContext& b = ops.build();
  const ModelConfig& m = *b.model;
  for (const auto& [ratio, layers] : AttentionGroups(r)) {
    Module module;
    module.name = ops.Name("attention");
    module.scale_factor = ops.Scaled(static_cast<double>(layers));
    module.attn_kind = ratio == kIndexed ? Dsv4AttentionKind::kCsa : Dsv4AttentionKind::kHca;
    module.num_heads = ops.Wire(m.heads / b.tp);
    module.native_heads = ops.Wire(m.heads);
    module.tp_size = ops.Wire(b.tp);
    module.kv_cache_dtype = b.quant.kv;
    module.fmha_quant_mode = b.quant.fmha;
    module.gemm_quant_mode = b.quant.gemm;
    module.architecture = m.architecture;
    module.cp_size = ops.Wire(ops.seq_split());
    module.window_size = ops.Wire(r.window);
    module.hidden_size = ops.Wire(m.hidden_size);
    module.q_lora_rank = ops.Wire(r.q_rank);
    module.o_lora_rank = ops.Wire(r.o_rank);
    module.head_dim = ops.Wire(r.head_dim);
    module.rope_head_dim = ops.Wire(r.rope_head_dim);
    module.index_n_heads = ops.Wire(r.index_heads);
    module.index_head_dim = ops.Wire(r.index_head_dim);
    module.index_topk = ops.Wire(r.index_topk);
    module.o_groups = ops.Wire(std::max<std::int64_t>(1, r.o_groups / b.tp));
    ops.Add(std::move(module));
  }
}

void AddHyperConnection(OpList& ops, double layers, std::string_view side) {
  const ModelConfig& m = *ops.build().model;
  const auto& r = m.RecordAs<DeepseekV4Record>();
  ops.Add(Mhc{.name = ops.Name(fmt::format("mhc_{}", side)),
              .scale_factor = ops.Scaled(layers),
              .op = std::string(side),
              .hc_mult = ops.Wire(r.connections),
              .hidden_size = ops.Wire(m.hidden_size),
              .architecture = m.architecture,
              .sinkhorn_iters = ops.Wire(r.sinkhorn_iters),
              .quant_mode = GemmQuant::kBfloat16,
              .seq_split = ops.Wire(ops.seq_split())});
}

// The shard's width is rounded down before it is doubled for gate and up.
void AddSharedExpert(OpList& ops, double layers) {
  const BuildContext& b = ops.build();
  MlpBlock shared;
  shared.layers = layers;
  shared.up = "shared_gate_up_gemm";
  shared.act = "shared_act_gate";
  shared.down = "shared_ffn2_gemm";
  shared.down_input = b.model->moe_inter_size / b.tp;
  shared.up_width = 2 * shared.down_input;
  shared.quant = b.quant.gemm;
  shared.low_precision_down = false;
  AddMlpBlock(ops, shared);
}

void AddExpertBlock(OpList& ops, const MoeSettings& moe) {
  const BuildContext& b = ops.build();
  const ModelConfig& m = *b.model;
  AddRouter(ops, moe);
  if (!IsFusedExperts(b)) {
    AddRoutedExperts(ops, moe);
    return;
  }
  ops.Add(Dsv4MegaMoe{
      .name = ops.Name("megamoe"),
      .scale_factor = ops.Scaled(moe.layers),
      .hidden_size = ops.Wire(m.hidden_size),
      .inter_size = ops.Wire(m.moe_inter_size),
      .topk = ops.Wire(m.topk),
      .num_experts = ops.Wire(m.num_experts),
      .moe_tp_size = ops.Wire(b.moe_tp),
      .moe_ep_size = ops.Wire(b.moe_ep),
      .quant_mode = moe.quant,
      .workload_distribution = moe.distribution == "uniform" ? "balanced" : moe.distribution,
      .is_context = ops.is_context(),
      .source_policy = "random",
      .pre_dispatch = "sglang_jit",
      .num_fused_shared_experts = 0,
      .kernel_source = "deepgemm_megamoe",
      .kernel_dtype = "fp8_fp4"});
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase) {
  const ModelConfig& m = *b.model;
  const auto& r = m.RecordAs<DeepseekV4Record>();
  const double L = static_cast<double>(b.L);
  const std::int64_t h = m.hidden_size;
  OpList ops(b, phase, b.cp);
  MoeSettings moe;
  moe.layers = L;
  moe.quant = b.quant.moe;
  moe.distribution = b.Distribution("1.01");
  moe.attn_cp_size = b.cp;  // in decode too

  ops.Embedding("embedding", 1, m.vocab, h);
  AddHyperConnection(ops, L, "pre");
  ops.Elementwise("attn_norm", L, h, h);
  if (ops.is_context()) {
    AddAttention<Dsv4Context>(ops, r);
  } else {
    AddAttention<Dsv4Generation>(ops, r);
  }
  AddHyperConnection(ops, L, "post");
  ops.Elementwise("ffn_norm", L, h, h);
  if (ops.is_context()) {
    AddSharedExpert(ops, L);
    AddExpertBlock(ops, moe);
  } else {
    OpList routed = ops.Sub();
    OpList shared = ops.Sub();
    AddExpertBlock(routed, moe);
    AddSharedExpert(shared, L);
    ops.Overlap("moe_overlap", std::move(routed), std::move(shared));
  }
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, h, GemmQuant::kBfloat16);
  ops.set_seq_split(1);
  ops.PipelineHandOver();
  return std::move(ops).Take();
}

// --- cache ---

// Every layer keeps its window; compressed layers add one entry every `ratio` tokens and a float32
// buffer of what is not compressed yet, indexed layers the same again for half-byte index keys.
// The same on every GPU of a tensor-parallel group.
KvLayout Kv(const BuildContext& b) {
  const auto& r = b.model->RecordAs<DeepseekV4Record>();
  KvLayout kv;
  kv.elements_per_token = GroupedQueryKv(b).elements_per_token;
  kv.inverse = KvInverse::kSearch;
  const double entry = static_cast<double>(r.head_dim) * b.KvBytesPerElement();
  for (const auto& [ratio, count] : r.ratios) {
    const double layers = static_cast<double>(count);
    if (r.window > 0) kv.terms.push_back({.bytes = layers * entry, .window = r.window});
    if (ratio == kWindowOnly) continue;
    const bool indexed = ratio == kIndexed;
    const double index_width = static_cast<double>(r.index_head_dim);
    double per_entry = entry;
    double buffer =
        static_cast<double>(2 * ratio * (indexed ? 2 : 1)) * static_cast<double>(r.head_dim) * 4;
    if (indexed) {
      per_entry += index_width * 0.5;
      buffer += static_cast<double>(2 * ratio * 2) * index_width * 4;
    }
    kv.terms.push_back({.bytes = layers * per_entry, .stride = ratio});
    kv.state_bytes += layers * buffer;
  }
  return kv;
}

// --- checks ---

Status CheckRatios(const DeepseekV4Record& r) {
  std::set<std::int64_t> unknown;
  for (const auto& [ratio, layers] : r.ratios) {
    if (ratio != kWindowOnly && ratio != kIndexed && ratio != kStrong) unknown.insert(ratio);
  }
  if (unknown.empty()) return {};
  std::string list;
  for (const std::int64_t ratio : unknown) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", ratio);
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("compress_ratios are 0, 4 or 128, the configuration has {}", list));
}

Status CheckFusedExperts(const BuildContext& b) {
  if (!IsFusedExperts(b)) return {};
  if (b.backend != Backend::kSglang) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_backend megamoe is modelled on SGLang only, not on {}",
                            ToString(b.backend)));
  }
  if (b.moe_tp != 1 || b.moe_ep <= 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_backend megamoe needs moe_tp = 1 and moe_ep > 1, got moe_tp = {} "
                            "and moe_ep = {}",
                            b.moe_tp, b.moe_ep));
  }
  return {};
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckRatios(b.model->RecordAs<DeepseekV4Record>()));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  IC_RETURN_IF_ERROR(CheckFusedExperts(b));
  FamilyPlan plan;
  plan.kv = Kv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration));
  return plan;
}

constexpr std::array<Architecture, 1> kArchitectures = {{{"DeepseekV4ForCausalLM"}}};

}  // namespace

const FamilyEntry kDeepseekV4Family = {.id = ModelFamily::kDeepseekV4,
                                       .architectures = kArchitectures,
                                       .is_moe = nullptr,
                                       .is_moe_always = true,
                                       .context_parallel = true,
                                       .parse = Parse,
                                       .build = Build};

}  // namespace infercast
