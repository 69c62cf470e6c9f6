// Nemotron models from neural architecture search: each layer has its own KV sharing and
// feed-forward width, or lacks one half; equal neighbours are priced as one group.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/families.h"

namespace infercast {

namespace {

struct Group {
  std::int64_t heads_in_group = 0;  // query heads that share a KV head; 0 when not given
  bool no_attention = false;
  double ffn_mult = 3.5;
  bool no_ffn = false;
  std::int64_t layers = 0;

  bool SameShape(const Group& o) const {
    return heads_in_group == o.heads_in_group && no_attention == o.no_attention &&
           ffn_mult == o.ffn_mult && no_ffn == o.no_ffn;
  }
};

constexpr double kLargestFfnMult = 65'536;

struct NasRecord : FamilyRecord {
  std::vector<Group> groups;
};

Status Parse(ModelConfig& m) {
  auto record = std::make_shared<NasRecord>();
  const JsonView blocks = m.decoder()["block_configs"];
  // The plain Nemotron architecture has no such list.
  if (m.architecture == "DeciLMForCausalLM") {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const JsonView attention = blocks.Item(i)["attention"];
      const JsonView ffn = blocks.Item(i)["ffn"];
      Group group;
      IC_ASSIGN(group.heads_in_group, ReadSize(attention, "n_heads_in_group"));
      group.no_attention = attention["no_op"].Truthy();
      group.no_ffn = ffn["no_op"].Truthy();
      if (const JsonView mult = ffn["ffn_mult"]; mult.exists()) {
        group.ffn_mult = mult.AsNumber().value_or(0);
        if (!(group.ffn_mult >= 0 && group.ffn_mult <= kLargestFfnMult)) {
          return Fail(ErrorKind::kModelConfig, fmt::format("ffn_mult must be from 0 to {}, got {}",
                                                           kLargestFfnMult, mult.Display()));
        }
      }
      if (record->groups.empty() || !record->groups.back().SameShape(group)) {
        record->groups.push_back(group);
      }
      ++record->groups.back().layers;
    }
  }
  if (record->groups.empty()) {
    m.notes.push_back("the checkpoint describes no layer blocks: its operator lists are empty");
  }
  m.record = std::move(record);
  return {};
}

// Feed-forward width: two thirds of the multiple of a gated network, in steps of 256.
std::int64_t FfnWidth(double mult, std::int64_t hidden) {
  constexpr std::int64_t kStep = 256;
  const auto raw = static_cast<std::int64_t>(2 * mult * static_cast<double>(hidden) / 3);
  return (raw + kStep - 1) / kStep * kStep;
}

constexpr std::int64_t kKernelHeadDim = 128;

Result<std::vector<Operator>> Layers(const BuildContext& b, Phase phase, const NasRecord& record) {
  const ModelConfig& m = *b.model;
  OpList ops(b, phase);
  ops.Embedding("embedding", 1, m.vocab, m.hidden_size);
  for (const Group& group : record.groups) {
    const double c = static_cast<double>(group.layers);
    if (!group.no_attention) {
      if (group.heads_in_group == 0) {
        return Fail(ErrorKind::kModelConfig, "a layer block lacks attention.n_heads_in_group");
      }
      const std::int64_t kv_heads = (m.heads / group.heads_in_group + b.tp - 1) / b.tp;
      AttentionBlock attention;
      attention.layers = c;
      attention.qkv_width = QkvWidth(m.heads, m.head_dim, kv_heads, b.tp);
      attention.proj_input = m.heads * m.head_dim / b.tp;
      attention.heads = {.heads = m.heads / b.tp, .kv_heads = kv_heads, .head_dim = kKernelHeadDim};
      attention.quant = b.quant.gemm;
      attention.low_precision_proj = false;
      AddAttentionBlock(ops, attention);
      ops.AllReduce("ar_1", c);
    }
    if (!group.no_ffn) {
      MlpBlock mlp = GatedMlp(c, FfnWidth(group.ffn_mult, m.hidden_size), b.tp, b.quant.gemm);
      mlp.low_precision_down = false;
      ops.Norm("add_norm_2", c);
      AddMlpBlock(ops, mlp);
      ops.AllReduce("ar_2", c);
    }
  }
  ops.PipelineHandOver();
  ops.Gemm("logits_gemm", 1, m.vocab / b.tp, m.hidden_size, GemmQuant::kBfloat16);
  return std::move(ops).Take();
}

Result<FamilyPlan> Build(const BuildContext& b) {
  IC_RETURN_IF_ERROR(CheckNoDraft(b));
  const auto& record = b.model->RecordAs<NasRecord>();
  FamilyPlan plan;
  // Such checkpoints have no KV head count, so this rule counts no KV at all.
  plan.kv = GroupedQueryKv(b);
  if (record.groups.empty()) return plan;
  IC_ASSIGN(plan.context_ops, Layers(b, Phase::kContext, record));
  IC_ASSIGN(plan.generation_ops, Layers(b, Phase::kGeneration, record));
  return plan;
}

constexpr std::array<Architecture, 2> kArchitectures = {
    {{"DeciLMForCausalLM"}, {"NemotronForCausalLM"}}};

}  // namespace

const FamilyEntry kNemotronNasFamily = {.id = ModelFamily::kNemotronNas,
                                        .architectures = kArchitectures,
                                        .is_moe = nullptr,
                                        .is_moe_always = false,
                                        .context_parallel = false,
                                        .parse = Parse,
                                        .build = Build};

}  // namespace infercast
