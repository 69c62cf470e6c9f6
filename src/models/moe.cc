// Decoders with routed experts in every layer (Mixtral, Qwen2/3-MoE, gpt-oss, MiniMax-M2): the
// dense decoder's attention, then router, token exchange and experts. The exchange carries the
// tensor-parallel sums, so there are no separate all-reduces.
#include "models/blocks/moe.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/families.h"
#include "models/generic_architecture.h"

namespace infercast {

namespace {

// gpt-oss: every other layer attends to the last positions only.
constexpr std::int64_t kOssWindow = 128;

bool IsGptOss(const ModelConfig& m) { return m.architecture == "GptOssForCausalLM"; }

// Load balancing flattens the token-to-expert distribution; how, differs by backend.
std::string Distribution(const BuildContext& b, Phase phase) {
  const bool balanced = b.options->moe_comm.any() && b.options->enable_eplb;
  if (balanced && b.backend == Backend::kTrtllm) return b.Distribution("1.2", "_eplb");
  if (balanced && phase == Phase::kContext) return b.Distribution("0.6");
  return b.Distribution("1.2");
}

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const KvLayout& kv) {
  const ModelConfig& m = *b.model;
  const double L = static_cast<double>(b.L);
  const std::int64_t kv_heads = b.KvHeadsPerGpu();
  const bool context = phase == Phase::kContext;
  const bool large_ep = b.options->moe_comm.any();
  const bool sglang_large_ep = large_ep && b.backend == Backend::kSglang;
  OpList ops(b, phase, b.cp);

  const AttentionHeads heads = {
      .heads = m.heads / b.tp, .kv_heads = kv_heads, .head_dim = m.head_dim, .qk_norm = m.qk_norm};
  if (IsGptOss(m)) {
    AttentionHeads windowed = heads;
    windowed.window = kOssWindow;
    ops.Attention(L / 2, windowed);
  }
  ops.Embedding("embedding", 1, sglang_large_ep ? m.vocab : m.vocab / b.tp, m.hidden_size);
  AttentionBlock attention;
  attention.layers = L;
  if (IsGptOss(m)) attention.attention_layers = L / 2;
  attention.qkv_width = QkvWidth(m.heads, m.head_dim, kv_heads, b.tp);
  attention.proj_input = m.heads * m.head_dim / b.tp;
  attention.heads = heads;
  attention.quant = b.quant.gemm;
  attention.kv_gather_elements = ContextKvGather(b, phase, kv);
  AddAttentionBlock(ops, attention);
  ops.Norm("add_norm_2", L);

  // Of the families that are built here only this one keeps such a record, for mapped
  // architectures: the listed ones route in every layer, and their shared experts are not part of
  // the list.
  const bool mapped = m.family_id() == ModelFamily::kMoe && m.record != nullptr;
  const GenericMoe generic = mapped ? m.RecordAs<GenericMoe>() : GenericMoe();
  const std::int64_t dense_layers = std::min(generic.dense_layers, b.L);
  if (dense_layers > 0) {
    const double dense = static_cast<double>(dense_layers);
    MlpBlock block = GatedMlp(dense, m.inter_size, b.tp, b.quant.gemm);
    block.prefix = "dense_";
    AddMlpBlock(ops, block);
    ops.AllReduce("dense_ar_1", dense);
    ops.AllReduce("dense_ar_2", dense);
  }

  MoeSettings moe;
  moe.layers = L - static_cast<double>(dense_layers);
  moe.quant = b.quant.moe;
  moe.distribution = Distribution(b, phase);
  moe.attn_cp_size = context ? b.cp : 1;
  const MoeCommBackends& libraries = b.options->moe_comm;
  if (context ? libraries.context : libraries.generation) {
    IC_RETURN_IF_ERROR(AddLargeEpBlock(ops, moe,
                                       {.experts = generic.shared_inter > 0 ? 1 : 0,
                                        .inter = generic.shared_inter,
                                        .quant = b.quant.gemm}));
  } else {
    AddRouter(ops, moe);
    if (generic.shared_inter > 0) {
      MlpBlock shared = GatedMlp(moe.layers, generic.shared_inter, b.tp, b.quant.gemm);
      shared.up = "shared_gate_up_gemm";
      shared.act = "shared_act_gate";
      shared.down = "shared_ffn2_gemm";
      shared.low_precision_down = false;
      AddMlpBlock(ops, shared);
    }
    AddRoutedExperts(ops, moe);
  }
  // Prefill counts no output head: the measured block ends with the experts.
  if (!context) ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  if (!sglang_large_ep) {
    ops.AllReduce("embedding_ar", 1);
    ops.PipelineHandOver();
  }
  return std::move(ops).Take();
}

// gpt-oss keeps only the window in half of its layers.
KvLayout GptOssKv(const BuildContext& b) {
  KvLayout kv = GroupedQueryKv(b);
  const double per_layer =
      static_cast<double>(b.KvHeadsPerGpu() * b.model->head_dim * 2) * b.KvBytesPerElement();
  const std::int64_t windowed = b.L / 2;
  kv.terms = {{.bytes = per_layer * static_cast<double>(windowed), .window = kOssWindow},
              {.bytes = per_layer * static_cast<double>(b.L - windowed)}};
  kv.inverse = KvInverse::kSearch;
  return kv;
}

Status ParseMoe(ModelConfig& m) {
  m.qk_norm = m.architecture == "Qwen3MoeForCausalLM" || m.architecture == "MiniMaxM2ForCausalLM";
  return {};
}

constexpr std::array<Architecture, 5> kArchitectures = {{{"MixtralForCausalLM"},
                                                         {"GptOssForCausalLM"},
                                                         {"Qwen2MoeForCausalLM"},
                                                         {"Qwen3MoeForCausalLM"},
                                                         {"MiniMaxM2ForCausalLM"}}};

}  // namespace

Result<FamilyPlan> BuildMoe(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckGpusPerNode(b));
  IC_RETURN_IF_ERROR(CheckExpertWidth(b));
  IC_RETURN_IF_ERROR(CheckExpertBlockAlignment(b));
  FamilyPlan plan;
  plan.kv = IsGptOss(*b.model) ? GptOssKv(b) : GroupedQueryKv(b);
  const KvLayout gathered = GroupedQueryKv(b);
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, gathered));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, gathered));
  return plan;
}

const FamilyEntry kMoeFamily = {.id = ModelFamily::kMoe,
                                .architectures = kArchitectures,
                                .is_moe = nullptr,
                                .is_moe_always = true,
                                .context_parallel = true,
                                .parse = ParseMoe,
                                .build = BuildMoe};

}  // namespace infercast
