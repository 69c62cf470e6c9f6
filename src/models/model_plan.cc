// The steps every build goes through before its family writes the operator lists.
#include "models/model_plan.h"

#include <fmt/format.h>

#include <utility>

#include "models/family.h"
#include "operators/bound_operator.h"

namespace infercast {

namespace {

Status CheckContextParallelism(const ModelConfig& model, const BuildOptions& options) {
  const ParallelLayout& layout = options.layout;
  if (layout.cp <= 1) return {};
  if (options.backend != Backend::kSglang || !model.family->context_parallel) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("context parallelism (cp = {}) is not supported for the {} family on "
                            "{}",
                            layout.cp, ToString(model.family_id()), ToString(options.backend)));
  }
  if (layout.tp != 1 || layout.dp != 1) {
    return Fail(
        ErrorKind::kInvalidArgument,
        fmt::format("context parallelism on SGLang needs tp = 1 and dp = 1, got tp = {} and "
                    "dp = {}",
                    layout.tp, layout.dp));
  }
  return {};
}

Result<BuildContext> Prepare(const ModelConfig& model, const BuildOptions& options,
                             ParallelLayout& layout) {
  if (model.quant_error) return std::unexpected(*model.quant_error);
  if (options.override_layers < 0) {
    return Fail(ErrorKind::kInvalidArgument, "the layer override is negative");
  }
  IC_RETURN_IF_ERROR(CheckSizes(layout));
  const bool is_moe = model.IsMoe();
  if (is_moe) IC_RETURN_IF_ERROR(ResolveExpertWidth(layout));

  BuildContext b;
  b.model = &model;
  b.options = &options;
  b.backend = options.backend;
  b.quant =
      ResolveQuantModes(options.quant, model.inferred_quant, model.architecture, options.backend);
  b.gemm_explicit = options.quant.gemm_explicit.value_or(options.quant.gemm.has_value());
  b.L = options.override_layers > 0 ? options.override_layers : model.layers;
  b.tp = layout.tp;
  b.pp = layout.pp;
  b.dp = layout.dp;
  b.cp = layout.cp;
  b.moe_tp = layout.moe_tp.value_or(1);
  b.moe_ep = layout.moe_ep.value_or(1);

  IC_RETURN_IF_ERROR(CheckContextParallelism(model, options));
  if (model.heads % layout.tp != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tp = {} does not divide the {} attention heads of {}", layout.tp,
                            model.heads, model.name));
  }
  if (options.nextn < 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the draft depth must not be negative, got {}", options.nextn));
  }
  b.nextn = options.nextn;
  b.draft_scale = b.nextn > 0 ? static_cast<double>(b.nextn + b.L) / static_cast<double>(b.L) : 1.0;
  return b;
}

ModelFacts Facts(const BuildContext& b, KvLayout kv) {
  const ModelConfig& m = *b.model;
  ModelFacts facts;
  facts.architecture = m.architecture;
  facts.family = m.family_id();
  facts.num_layers = b.L;
  facts.num_heads = m.heads;
  facts.num_kv_heads = m.kv_heads;
  facts.head_size = m.head_dim;
  facts.hidden_size = m.hidden_size;
  facts.num_experts = m.num_experts;
  facts.topk = m.topk;
  facts.vocab_size = m.vocab;
  facts.context_length = m.context;
  facts.is_moe = m.IsMoe();
  facts.kv = std::move(kv);
  facts.kv.context_length = m.context;
  return facts;
}

// What a whole measured forward pass must have in common with the build to stand for it.
std::vector<std::string> WholeForwardIdentity(const BuildContext& b, const ParallelLayout& layout) {
  const BuildOptions& o = *b.options;
  const auto name = [](auto mode) { return std::string(ToString(mode)); };
  const auto or_auto = [](const std::optional<std::string>& text, std::string_view same) {
    return !text || text->empty() || *text == same ? std::string("auto") : *text;
  };
  const auto flag = [](bool value) { return std::string(value ? "True" : "False"); };
  return {name(b.quant.gemm),
          name(b.quant.moe),
          name(b.quant.fmha),
          name(b.quant.comm),
          name(b.quant.kv),
          std::to_string(b.tp),
          std::to_string(b.pp),
          std::to_string(b.dp),
          std::to_string(layout.moe_tp.value_or(1)),
          std::to_string(layout.moe_ep.value_or(1)),
          std::to_string(b.cp),
          or_auto(o.moe_backend, "auto"),
          or_auto(o.attention_backend, "flashinfer"),
          flag(o.enable_wideep),
          flag(o.enable_eplb)};
}

// Each list becomes one operator that was measured as a whole; the lists stay as its roofline.
Status CollapseToWholeForward(const BuildContext& b, ModelPlan& plan) {
  if (!plan.encoder_ops.empty() || plan.nextn != 0) {
    return Fail(ErrorKind::kUnsupportedModel,
                "a whole measured forward pass has neither a vision encoder nor draft tokens");
  }
  double weights = 0;
  for (const Operator& op : plan.context_ops) weights += WeightBytes(op);
  const auto collapse = [&](std::vector<Operator>& ops, std::string_view name, FpmPhase phase) {
    FpmForward whole{.name = std::string(name),
                     .phase = phase,
                     .model_path = plan.model,
                     .match_identity = WholeForwardIdentity(b, plan.layout),
                     .weight_bytes = weights,
                     .sol_ops = std::move(ops)};
    ops.clear();
    ops.emplace_back(std::move(whole));
  };
  collapse(plan.context_ops, "fpm_forward_prefill", FpmPhase::kPrefill);
  collapse(plan.generation_ops, "fpm_forward_decode", FpmPhase::kDecode);
  return {};
}

}  // namespace

Result<ModelPlan> BuildModelPlan(const ModelConfig& model, const BuildOptions& options) {
  ParallelLayout layout = options.layout;
  IC_ASSIGN(const BuildContext b, Prepare(model, options, layout));
  if (model.family->build == nullptr) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("the {} family ({}) is not built yet", ToString(model.family_id()),
                            model.architecture));
  }
  IC_ASSIGN(FamilyPlan family, model.family->build(b));

  ModelPlan plan;
  plan.model = model.name;
  plan.facts = Facts(b, std::move(family.kv));
  plan.layout = layout;
  plan.quant = b.quant;
  plan.nextn = b.nextn;
  plan.backend = b.backend;
  plan.attention_backend = options.attention_backend;
  plan.context_ops = std::move(family.context_ops);
  plan.generation_ops = std::move(family.generation_ops);
  plan.encoder_ops = std::move(family.encoder_ops);
  plan.vision = family.vision;
  plan.activation_hidden_size = family.activation_hidden_size != 0 ? family.activation_hidden_size
                                                                   : model.heads * model.head_dim;
  plan.notes = model.notes;
  if (b.L % b.pp != 0) {
    plan.notes.push_back(
        fmt::format("{} layers do not divide evenly over {} pipeline stages", b.L, b.pp));
  }
  if (options.forward_model == ForwardModel::kWholeForward) {
    IC_RETURN_IF_ERROR(CollapseToWholeForward(b, plan));
  }
  return plan;
}

}  // namespace infercast
