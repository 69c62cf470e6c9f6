#include "serving/step_costs.h"

#include <algorithm>
#include <cmath>

namespace infercast {

namespace {

template <typename T, typename... Kinds>
inline constexpr bool kOneOf = (std::is_same_v<T, Kinds> || ...);

OperatorClass ClassOfGroup(const std::vector<Operator>& ops) {
  if (ops.empty()) return OperatorClass::kOther;
  for (const Operator& op : ops) {
    if (ClassOf(op) == OperatorClass::kMoe) return OperatorClass::kMoe;
  }
  return ClassOf(ops.front());
}

std::uint32_t Size(double v) { return static_cast<std::uint32_t>(std::max(1.0, std::round(v))); }

}  // namespace

OperatorClass ClassOf(const Operator& op) {
  return std::visit(
      [](const auto& o) {
        using T = std::decay_t<decltype(o)>;
        if constexpr (kOneOf<T, Gemm, MlaBmm>) {
          return OperatorClass::kGemm;
        } else if constexpr (kOneOf<T, Moe, MoeExpertCompute, Dsv4MegaMoe>) {
          return OperatorClass::kMoe;
        } else if constexpr (kOneOf<T, MoeDispatch, CustomAllReduce, Nccl, P2P, MoeAllToAll>) {
          return OperatorClass::kCommunication;
        } else if constexpr (kOneOf<T, Embedding, Elementwise, Mhc, Vision, FpmForward>) {
          return OperatorClass::kOther;
        } else if constexpr (std::is_same_v<T, Overlap>) {
          const OperatorClass a = ClassOfGroup(o.group_a), b = ClassOfGroup(o.group_b);
          return a == OperatorClass::kMoe || b == OperatorClass::kMoe ? OperatorClass::kMoe
                 : o.group_a.empty()                                  ? b
                                                                      : a;
        } else if constexpr (std::is_same_v<T, Fallback>) {
          return o.primary ? ClassOf(*o.primary) : ClassOfGroup(o.fallback);
        } else {
          return OperatorClass::kAttention;
        }
      },
      op.kind);
}

ClassCosts Blend(const ClassCosts& a, const ClassCosts& b, double weight) {
  ClassCosts out;
  for (std::size_t i = 0; i < kOperatorClasses; ++i) {
    out.ms[i] = Blend(a.ms[i], b.ms[i], weight);
  }
  return out;
}

Result<std::shared_ptr<StepCosts>> StepCosts::Create(std::shared_ptr<const Worker> worker) {
  if (worker->engine().is_whole_forward()) {
    return Fail(ErrorKind::kUnsupportedModel,
                "a forward pass that was measured as a whole cannot be split into the parts that "
                "the closed-loop forecast composes");
  }
  std::shared_ptr<StepCosts> costs(new StepCosts(std::move(worker)));
  const ModelPlan& plan = costs->worker_->plan();
  for (const Operator& op : plan.context_ops) costs->context_class_.push_back(ClassOf(op));
  for (const Operator& op : plan.generation_ops) costs->generation_class_.push_back(ClassOf(op));
  return costs;
}

double StepCosts::Sum(bool context, std::uint32_t batch, std::uint32_t s, std::uint32_t prefix) {
  const std::span<const BoundOperator> ops =
      context ? worker_->engine().context_ops() : worker_->engine().generation_ops();
  const std::vector<OperatorClass>& classes = context ? context_class_ : generation_class_;
  double ms = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (classes[i] != OperatorClass::kAttention) continue;
    const QueryContext query = context ? ContextQuery(ops[i], batch, s, prefix, 1.0, std::nullopt)
                                       : GenerationQuery(batch, 1, s, 1.0, 0, std::nullopt);
    const Result<PerfResult> r = ops[i].Query(query);
    if (!r) {
      if (status_) status_ = std::unexpected(r.error());
      return 0;
    }
    ms += r->latency_ms;
  }
  return ms;
}

ClassCosts StepCosts::SumOthers(bool context, std::uint32_t tokens) {
  const std::span<const BoundOperator> ops =
      context ? worker_->engine().context_ops() : worker_->engine().generation_ops();
  const std::vector<OperatorClass>& classes = context ? context_class_ : generation_class_;
  ClassCosts out;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (classes[i] == OperatorClass::kAttention) continue;
    const QueryContext query = context ? ContextQuery(ops[i], 1, tokens, 0, 1.0, std::nullopt)
                                       : GenerationQuery(tokens, 1, 2, 1.0, 0, std::nullopt);
    const Result<PerfResult> r = ops[i].Query(query);
    if (!r) {
      if (status_) status_ = std::unexpected(r.error());
      return {};
    }
    out.ms[static_cast<std::size_t>(classes[i])] += r->latency_ms;
  }
  return out;
}

double StepCosts::ContextAttention(double tokens, double cached) {
  return context_attention_.At(tokens, cached, [this](double n, double p) {
    return n == 0 ? 0.0 : Sum(true, 1, Size(n), static_cast<std::uint32_t>(p));
  });
}

double StepCosts::BatchingGain(double batch, double tokens) {
  if (batch <= 1) return 1;
  return batching_gain_.At(batch, std::max(tokens, 1.0), [this](double k, double n) {
    const double alone = Sum(true, 1, Size(n), 0);
    return alone > 0 ? Sum(true, Size(k), Size(n), 0) / (Size(k) * alone) : 1.0;
  });
}

double StepCosts::DecodeAttention(double decodes, double kv) {
  const double drafts = worker_->engine().nextn() + 1.0;
  return decode_attention_.At(decodes, kv, [&](double g, double s) {
    return g == 0 ? 0.0 : Sum(false, Size(g * drafts), Size(s), 0);
  });
}

ClassCosts StepCosts::ContextOthers(double tokens) {
  return context_others_.At(
      tokens, [this](double x) { return x == 0 ? ClassCosts{} : SumOthers(true, Size(x)); });
}

ClassCosts StepCosts::DecodeOthers(double decodes) {
  const double drafts = worker_->engine().nextn() + 1.0;
  return decode_others_.At(decodes, [&](double g) {
    return g == 0 ? ClassCosts{} : SumOthers(false, Size(g * drafts));
  });
}

template <typename TokensOf>
StepCosts::Widths StepCosts::WidthsOf(std::span<const RankLoad> ranks, const TokensOf& tokens) {
  Widths w;
  double sum = 0;
  for (const RankLoad& rank : ranks) {
    const double t = tokens(rank);
    w.fullest = std::max(w.fullest, t);
    sum += t;
  }
  // Experts and links serve all ranks together; the fullest one is still waited for.
  w.shared = 0.5 * w.fullest + 0.5 * sum / static_cast<double>(ranks.size());
  return w;
}

double StepCosts::ContextAttentionMs(std::span<const RankLoad> ranks) {
  double longest = 0;
  for (const RankLoad& rank : ranks) {
    const ContextLoad& c = rank.context;
    if (c.chunks == 0) continue;
    const double k = static_cast<double>(c.chunks);
    longest =
        std::max(longest, BatchingGain(k, static_cast<double>(c.tokens) / k) * c.attention_alone);
  }
  return longest;
}

double StepCosts::DecodeAttentionMs(std::span<const RankLoad> ranks) {
  double longest = 0;
  for (const RankLoad& rank : ranks) {
    if (rank.decodes == 0) continue;
    longest = std::max(longest, DecodeAttention(static_cast<double>(rank.decodes), rank.mean_kv));
  }
  return longest;
}

namespace {

// Every rank's own work, then what is shared.
double Compose(const ClassCosts& own, const ClassCosts& shared) {
  return own[OperatorClass::kGemm] + own[OperatorClass::kOther] + shared[OperatorClass::kMoe] +
         shared[OperatorClass::kCommunication];
}

}  // namespace

double StepCosts::ContextOthersMs(const Widths& w) {
  if (w.fullest == 0) return 0;
  const ClassCosts own = ContextOthers(w.fullest);
  return Compose(own, w.shared == w.fullest ? own : ContextOthers(w.shared));
}

double StepCosts::DecodeOthersMs(const Widths& w) {
  if (w.fullest == 0) return 0;
  const ClassCosts own = DecodeOthers(w.fullest);
  return Compose(own, w.shared == w.fullest ? own : DecodeOthers(w.shared));
}

double StepCosts::DecodeMs(std::span<const RankLoad> ranks, const StepCorrections& corrections) {
  const Widths w =
      WidthsOf(ranks, [](const RankLoad& r) { return static_cast<double>(r.decodes); });
  if (w.fullest == 0) return 0;
  const double host =
      corrections.host_ms_per_layer * static_cast<double>(worker_->plan().facts.num_layers);
  return corrections.decode_scale * (DecodeAttentionMs(ranks) + DecodeOthersMs(w)) + host;
}

double StepCosts::ContextMs(std::span<const RankLoad> ranks, const StepCorrections& corrections) {
  const Widths w =
      WidthsOf(ranks, [](const RankLoad& r) { return static_cast<double>(r.context.tokens); });
  return corrections.context_scale * (ContextAttentionMs(ranks) + ContextOthersMs(w));
}

double StepCosts::StepMs(std::span<const RankLoad> ranks, const StepCorrections& corrections) {
  bool context = false, decode = false;
  for (const RankLoad& r : ranks) {
    context = context || r.context.chunks > 0;
    decode = decode || r.decodes > 0;
  }
  if (!context) return DecodeMs(ranks, corrections);
  if (!decode) return ContextMs(ranks, corrections);
  const double attention = ContextAttentionMs(ranks);
  const Widths prompts =
      WidthsOf(ranks, [](const RankLoad& r) { return static_cast<double>(r.context.tokens); });
  const Widths both = WidthsOf(
      ranks, [](const RankLoad& r) { return static_cast<double>(r.context.tokens + r.decodes); });
  const double mixed = corrections.context_scale * (attention + ContextOthersMs(both)) +
                       corrections.decode_scale * DecodeAttentionMs(ranks);
  const double context_only = corrections.context_scale * (attention + ContextOthersMs(prompts));
  const double decode_only = DecodeMs(ranks, corrections);
  return std::clamp(mixed, std::max(context_only, decode_only), context_only + decode_only);
}

}  // namespace infercast
