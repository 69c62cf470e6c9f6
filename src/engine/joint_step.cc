#include "engine/joint_step.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace infercast {

namespace {

template <typename T, typename... Kinds>
inline constexpr bool kOneOf = (std::is_same_v<T, Kinds> || ...);

bool SeesSequences(const Operator& op);

bool AnySeesSequences(const std::vector<Operator>& ops) {
  return std::ranges::any_of(ops, SeesSequences);
}

// Whether the cost depends on how tokens are spread over sequences, not only on their number.
bool SeesSequences(const Operator& op) {
  return std::visit(
      [](const auto& o) {
        using T = std::decay_t<decltype(o)>;
        if constexpr (kOneOf<T, Gemm, Embedding, Elementwise, MlaBmm, Moe, MoeDispatch,
                             CustomAllReduce, Nccl, P2P, Vision, Mhc, Dsv4MegaMoe, MoeAllToAll,
                             MoeExpertCompute>) {
          // Descriptions from elsewhere may hold other kinds under these names.
          return o.name == "context_attention" || o.name == "generation_attention";
        } else if constexpr (std::is_same_v<T, Overlap>) {
          return AnySeesSequences(o.group_a) || AnySeesSequences(o.group_b);
        } else if constexpr (std::is_same_v<T, Fallback>) {
          return (o.primary && SeesSequences(*o.primary)) || AnySeesSequences(o.fallback);
        } else {
          return true;
        }
      },
      op.kind);
}

bool IsLogits(const Operator& op) {
  return std::holds_alternative<Gemm>(op.kind) &&
         op.name().find("logits_gemm") != std::string::npos;
}

// A name without its phase.
std::string_view Stem(std::string_view name) {
  for (const std::string_view phase : {"context_", "generation_"}) {
    if (name.starts_with(phase)) return name.substr(phase.size());
  }
  return name;
}

// Bytes of every token plus a constant per launch or transfer, the same in both lists. Coarser
// tokens round down, which a sum does not survive.
bool IsLinear(const Operator& context, const Operator& generation) {
  const auto* elementwise = std::get_if<Elementwise>(&context.kind);
  const bool linear = elementwise != nullptr ? elementwise->scale_num_tokens <= 1
                                             : std::holds_alternative<Embedding>(context.kind) ||
                                                   std::holds_alternative<P2P>(context.kind);
  if (!linear) return false;
  Operator same = generation;
  same.set_name(context.name());
  return same == context;
}

bool Contains(const std::vector<std::uint32_t>& list, std::uint32_t value) {
  return std::ranges::find(list, value) != list.end();
}

double Latency(const StepCost& cost) { return cost.latency_ms; }
double Latency(const Breakdown& breakdown) { return breakdown.TotalLatency(); }
double Energy(const StepCost& cost) { return cost.energy_wms; }
double Energy(const Breakdown& breakdown) { return breakdown.TotalEnergy(); }
void ScaleEnergy(StepCost& cost, double factor) { cost.energy_wms *= factor; }
void ScaleEnergy(Breakdown& breakdown, double factor) {
  for (OpEntry& e : breakdown.entries) e.energy_wms *= factor;
}
void Enter(StepCost& cost, const BoundOperator&, const PerfResult& r) { cost.Add(r); }
void Enter(Breakdown& breakdown, const BoundOperator& op, const PerfResult& r) {
  breakdown.Add(op.name(), r);
}
void Append(StepCost& total, const StepCost& part) { total.Add(part); }
void Append(Breakdown& total, const Breakdown& part) {
  for (const OpEntry& e : part.entries) total.Add(e);
}

}  // namespace

JointStep::JointStep(const EngineSpec& spec) {
  const auto size = [](const std::vector<Operator>& ops) {
    return static_cast<std::uint32_t>(ops.size());
  };
  // The n-th operator of a name stands for the n-th of that name in the other list: models whose
  // layers differ repeat names.
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> by_stem;
  for (std::uint32_t i = size(spec.generation_ops); i-- > 0;) {
    const Operator& op = spec.generation_ops[i];
    if (!SeesSequences(op)) by_stem[Stem(op.name())].push_back(i);
  }
  Group rest;
  std::size_t rest_position = 0;
  std::vector<Group> alone;
  for (std::uint32_t i = 0; i < size(spec.context_ops); ++i) {
    const Operator& op = spec.context_ops[i];
    if (SeesSequences(op)) {
      prefill_attention_.push_back(i);
      continue;
    }
    const auto found = by_stem.find(Stem(op.name()));
    if (found != by_stem.end() && !found->second.empty()) {
      const std::uint32_t other = found->second.back();
      found->second.pop_back();
      groups_.push_back({{i}, {other}, true, IsLinear(op, spec.generation_ops[other])});
    } else if (IsLogits(op)) {
      groups_.push_back({{i}, {}});
    } else {
      if (rest.context.empty()) rest_position = groups_.size();
      rest.context.push_back(i);
    }
  }
  for (std::uint32_t i = 0; i < size(spec.generation_ops); ++i) {
    const Operator& op = spec.generation_ops[i];
    if (SeesSequences(op)) {
      decode_attention_.push_back(i);
    } else if (Contains(by_stem[Stem(op.name())], i)) {
      // Prompts need few logits or none; those of the decodes come on top.
      if (IsLogits(op)) {
        alone.push_back({{}, {i}});
      } else {
        rest.generation.push_back(i);
      }
    }
  }
  // The lists may cut the same work differently: what has no counterpart is held together against
  // what is left of the other list.
  if (!rest.context.empty()) {
    groups_.insert(groups_.begin() + static_cast<std::ptrdiff_t>(rest_position), std::move(rest));
  } else if (!rest.generation.empty()) {
    groups_.push_back(std::move(rest));
  }
  std::ranges::move(alone, std::back_inserter(groups_));
}

// The questions of one step, put together once.
struct JointStep::Walk {
  std::span<const BoundOperator> context;
  std::span<const BoundOperator> generation;
  std::uint32_t prefill_chunks;
  bool prefills;
  bool decodes;
  QueryContext prefill, prefill_logits, joint, joint_logits, prefill_attention, decode;

  Walk(std::span<const BoundOperator> context_ops, std::span<const BoundOperator> generation_ops,
       const JointWork& work)
      : context(context_ops),
        generation(generation_ops),
        prefill_chunks(work.prefill_chunks),
        prefills(work.prompts > 0),
        decodes(work.sequences > 0) {
    const auto tokens = [&](std::uint64_t n) {
      QueryContext q;
      q.num_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 0xffffffffU));
      q.s = q.num_tokens;
      q.seq_imbalance_correction_scale = work.context_imbalance;
      return q;
    };
    if (prefills) {
      prefill = tokens(work.prefill_tokens);
      prefill_logits = tokens(work.prompts);
      prefill_attention = prefill;
      prefill_attention.batch_size = work.prompts;
      prefill_attention.s = work.new_tokens;
      prefill_attention.prefix = work.prefix;
      prefill_attention.num_tokens = work.prompts * work.new_tokens;  // wraps, as every prefill's
    }
    if (decodes) {
      joint = tokens(std::uint64_t{work.prefill_tokens} + work.sequences);
      joint_logits = tokens(std::uint64_t{work.prompts} + work.sequences);
      decode = GenerationQuery(work.sequences, 1, work.kv_length, work.generation_imbalance, 0,
                               std::nullopt);
    }
  }

  Result<PerfResult> Prefill(const BoundOperator& op) const {
    return op.Query(op.is_logits_gemm() ? prefill_logits : prefill);
  }
  Result<PerfResult> Joint(const BoundOperator& op) const {
    return op.Query(op.is_logits_gemm() ? joint_logits : joint);
  }
  Result<PerfResult> PrefillAttention(const BoundOperator& op) const {
    return op.Query(prefill_attention);
  }
  Result<PerfResult> Decode(const BoundOperator& op) const { return op.Query(decode); }

  // Asks the operators of a list and enters what they say.
  template <typename Part>
  Status Sum(std::span<const BoundOperator> ops, std::span<const std::uint32_t> which,
             Result<PerfResult> (Walk::*ask)(const BoundOperator&) const, Part& part) const {
    for (const std::uint32_t i : which) {
      const Result<PerfResult> r = (this->*ask)(ops[i]);
      if (!r) return std::unexpected(r.error());
      Enter(part, ops[i], *r);
    }
    return {};
  }
};

template <typename Part>
Status JointStep::PricePair(const Walk& walk, const Group& group, Part& shared) {
  const BoundOperator& op = walk.context[group.context.front()];
  Result<PerfResult> joint = walk.Joint(op);
  if (!joint) return std::unexpected(joint.error());
  if (!group.linear) {
    const Result<PerfResult> prefill = walk.Prefill(op);
    if (!prefill) return std::unexpected(prefill.error());
    const Result<PerfResult> decode = walk.Decode(walk.generation[group.generation.front()]);
    if (!decode) return std::unexpected(decode.error());
    if (joint->latency_ms > prefill->latency_ms + decode->latency_ms) {
      Enter(shared, op, *prefill);
      Enter(shared, op, *decode);
      return {};
    }
    const double energy =
        std::clamp(joint->energy_wms, std::max(prefill->energy_wms, decode->energy_wms),
                   prefill->energy_wms + decode->energy_wms);
    const Result<PerfResult>& larger = decode->latency_ms > prefill->latency_ms ? decode : prefill;
    if (joint->latency_ms < larger->latency_ms) *joint = *larger;
    joint->energy_wms = energy;
  }
  Enter(shared, op, *joint);
  return {};
}

template <typename Part>
Status JointStep::PriceGroup(const Walk& walk, const Group& group, Part& shared) {
  Part joint, prefill, decode;
  IC_RETURN_IF_ERROR(walk.Sum(walk.context, group.context, &Walk::Joint, joint));
  IC_RETURN_IF_ERROR(walk.Sum(walk.context, group.context, &Walk::Prefill, prefill));
  IC_RETURN_IF_ERROR(walk.Sum(walk.generation, group.generation, &Walk::Decode, decode));
  if (Latency(joint) > Latency(prefill) + Latency(decode)) {
    Append(shared, prefill);
    Append(shared, decode);
    return {};
  }
  const double energy = std::clamp(Energy(joint), std::max(Energy(prefill), Energy(decode)),
                                   Energy(prefill) + Energy(decode));
  Part& larger = Latency(decode) > Latency(prefill) ? decode : prefill;
  Part& chosen = Latency(joint) < Latency(larger) ? larger : joint;
  if (Energy(chosen) > 0) ScaleEnergy(chosen, energy / Energy(chosen));
  Append(shared, chosen);
  return {};
}

template <typename Parts>
Status JointStep::Price(const Walk& walk, Parts& parts) const {
  for (const Group& group : groups_) {
    if (!walk.decodes) {
      IC_RETURN_IF_ERROR(walk.Sum(walk.context, group.context, &Walk::Prefill, parts.shared));
    } else if (!walk.prefills) {
      IC_RETURN_IF_ERROR(walk.Sum(walk.generation, group.generation, &Walk::Decode, parts.shared));
    } else if (group.pair) {
      IC_RETURN_IF_ERROR(PricePair(walk, group, parts.shared));
    } else {
      IC_RETURN_IF_ERROR(PriceGroup(walk, group, parts.shared));
    }
  }
  if (walk.prefills) {
    IC_RETURN_IF_ERROR(walk.Sum(walk.context, prefill_attention_, &Walk::PrefillAttention,
                                parts.context_attention));
    parts.context_attention.Divide(walk.prefill_chunks);
  }
  if (walk.decodes) {
    IC_RETURN_IF_ERROR(
        walk.Sum(walk.generation, decode_attention_, &Walk::Decode, parts.decode_attention));
  }
  return {};
}

Result<MixedCost> JointStep::Cost(std::span<const BoundOperator> context,
                                  std::span<const BoundOperator> generation,
                                  const JointWork& work) const {
  MixedCost cost;
  IC_RETURN_IF_ERROR(Price(Walk(context, generation, work), cost));
  return cost;
}

Result<MixedBreakdown> JointStep::Explain(std::span<const BoundOperator> context,
                                          std::span<const BoundOperator> generation,
                                          const JointWork& work) const {
  MixedBreakdown out;
  IC_RETURN_IF_ERROR(Price(Walk(context, generation, work), out));
  return out;
}

}  // namespace infercast
