#include "serving/bounds.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <variant>

namespace infercast {

namespace {

// Between the name of an overlapped operator and the place of a member in it.
constexpr char kMember = '\x1f';
// Reference behaviour marks attention whose prefill was cut in chunks.
constexpr std::string_view kScaled = " (scaled)";

template <typename T, typename... Kinds>
constexpr bool kIsOneOf = (std::is_same_v<T, Kinds> || ...);

double CountOf(const Operator& op) {
  return std::visit(
      [](const auto& kind) {
        using T = std::decay_t<decltype(kind)>;
        if constexpr (requires { kind.scale_factor; }) {
          return kind.scale_factor;
        } else if constexpr (std::is_same_v<T, Overlap>) {
          return kind.group_a.empty() ? 0.0 : CountOf(kind.group_a.front());
        } else if constexpr (std::is_same_v<T, Fallback>) {
          return kind.primary ? CountOf(*kind.primary) : 0.0;
        } else {
          return 1.0;
        }
      },
      op.kind);
}

std::string MemberName(const std::string& overlap, char group, std::size_t i) {
  return overlap + kMember + group + std::to_string(i);
}

void AddMembers(const Overlap& overlap, std::vector<Operator>& out) {
  const auto add = [&](const std::vector<Operator>& group, char mark) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      out.push_back(group[i]);
      out.back().set_name(MemberName(overlap.name, mark, i));
    }
  };
  add(overlap.group_a, 'a');
  add(overlap.group_b, 'b');
}

// The rooflines of whole latent-attention blocks are those of their kernels; the blocks that were
// measured project, too. Sizes other than heads and residual width are those of DeepSeek-V3, as in
// the kernels' rooflines.
void AddProjections(const std::string& name, const MlaModule& block, std::uint32_t hidden,
                    bool context, std::vector<Operator>& out) {
  constexpr std::uint32_t kQueryRank = 1536, kLatent = 512, kRotary = 64, kHead = 128;
  const auto add = [&](std::uint32_t n, std::uint32_t k) {
    Gemm gemm;
    gemm.name = name;
    gemm.scale_factor = block.scale_factor;
    gemm.n = n;
    gemm.k = k;
    gemm.quant_mode = block.gemm_quant_mode;
    out.emplace_back(std::move(gemm));
  };
  add(kQueryRank + kLatent + kRotary, hidden);
  add(block.num_heads * (kHead + kRotary), kQueryRank);
  if (context) add(block.num_heads * 2 * kHead, kLatent);
  add(hidden, block.num_heads * kHead);
}

std::vector<Operator> WithProjections(const std::vector<Operator>& ops, std::int64_t hidden) {
  const auto width = static_cast<std::uint32_t>(hidden);
  std::vector<Operator> out;
  for (const Operator& op : ops) {
    out.push_back(op);
    const auto* choice = std::get_if<Fallback>(&op.kind);
    const Operator& block = choice != nullptr && choice->primary ? *choice->primary : op;
    if (const auto* prefill = std::get_if<MlaModuleContext>(&block.kind)) {
      AddProjections(op.name(), *prefill, width, true, out);
    } else if (const auto* decode = std::get_if<MlaModuleGeneration>(&block.kind)) {
      AddProjections(op.name(), *decode, width, false, out);
    }
  }
  return out;
}

std::vector<Operator> TakenApart(const std::vector<Operator>& ops, bool members_only) {
  std::vector<Operator> out;
  for (const Operator& op : ops) {
    if (const auto* overlap = std::get_if<Overlap>(&op.kind)) {
      AddMembers(*overlap, out);
    } else if (!members_only) {
      out.push_back(op);
    }
  }
  return out;
}

// What is known of an entry or of one group of an overlapped one.
struct Parts {
  double latency_ms = 0;  // of members only
  double communication_ms = 0;
  double bound_ms = 0, compute_ms = 0, memory_ms = 0;
  bool all_light = true;  // every answer was a roofline

  void AddRoofline(const OpEntry& e) {
    bound_ms += e.latency_ms;
    compute_ms += e.sol_math_ms;
    memory_ms += e.sol_mem_ms;
    all_light &= e.latency_ms == 0 || e.origin.kind == OriginKind::kSpeedOfLight;
  }
};

const OpEntry* EntryOf(const Breakdown& breakdown, std::string_view name) {
  for (const OpEntry& e : breakdown.entries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

}  // namespace

OperatorRole RoleOf(const Operator& op) {
  return std::visit(
      [](const auto& kind) {
        using T = std::decay_t<decltype(kind)>;
        if constexpr (kIsOneOf<T, Gemm, MlaBmm, Moe, MoeExpertCompute, Dsv4MegaMoe>) {
          return OperatorRole::kWeights;
        } else if constexpr (kIsOneOf<T, CustomAllReduce, Nccl, P2P, MoeDispatch, MoeAllToAll>) {
          return OperatorRole::kCommunication;
        } else if constexpr (kIsOneOf<T, Mamba2, Gdn, Kda>) {
          return OperatorRole::kState;
        } else if constexpr (kIsOneOf<T, Embedding, Elementwise, Mhc>) {
          return OperatorRole::kActivations;
        } else if constexpr (kIsOneOf<T, FpmForward, Vision>) {
          return OperatorRole::kOther;
        } else if constexpr (std::is_same_v<T, Overlap>) {
          return kind.group_a.empty() ? OperatorRole::kOther : RoleOf(kind.group_a.front());
        } else if constexpr (std::is_same_v<T, Fallback>) {
          return kind.primary ? RoleOf(*kind.primary) : OperatorRole::kOther;
        } else {
          return OperatorRole::kAttention;
        }
      },
      op.kind);
}

int KernelsOf(const Operator& op) {
  // Routing, permutation, two products, activation and combination of experts; projections, norms,
  // rotation, cache and attention of a block.
  static constexpr int kBlock = 8;
  return std::visit(
      [](const auto& kind) {
        using T = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<T, Gemm>) {
          // Low formats quantise the activations first.
          return kind.quant_mode == GemmQuant::kBfloat16 ? 1 : 2;
        } else if constexpr (kIsOneOf<T, Embedding, Elementwise, MlaBmm, P2P, Nccl,
                                      CustomAllReduce>) {
          return 1;
        } else if constexpr (kIsOneOf<T, ContextAttention, GenerationAttention, EncoderAttention,
                                      ContextMla, GenerationMla, Mamba2, Gdn, Kda>) {
          return 2;
        } else {
          return kBlock;
        }
      },
      op.kind);
}

Bound ClassifyBound(OperatorRole role, double latency_ms, double calls, int kernels,
                    double bound_ms, double compute_ms, double memory_ms) {
  if (!(latency_ms > 0)) return Bound::kNone;
  if (role == OperatorRole::kCommunication) return Bound::kCommunication;
  if (!(bound_ms > 0)) return Bound::kUnknown;
  const bool short_calls = calls > 0 && latency_ms / calls <= kLaunchMs * kernels;
  if (short_calls && bound_ms < kNearBound * latency_ms) return Bound::kLaunch;
  if (compute_ms == 0 && memory_ms == 0) {
    // Rooflines of recurrent kernels are their traffic alone.
    return role == OperatorRole::kState ? Bound::kBandwidth : Bound::kUnknown;
  }
  return compute_ms >= memory_ms ? Bound::kCompute : Bound::kBandwidth;
}

void RooflineTwin::List(const std::vector<Operator>& ops, Inventory& inventory) {
  for (const Operator& op : ops) {
    const auto [entry, added] = inventory.try_emplace(op.name());
    Known& known = entry->second;
    known.count += CountOf(op);
    if (!added && known.role != RoleOf(op)) {
      // Communication only where every operator of the name is.
      if (known.role == OperatorRole::kCommunication) known.role = RoleOf(op);
      continue;
    }
    known.role = RoleOf(op);
    known.kernels = KernelsOf(op);
    known.overlap = std::holds_alternative<Overlap>(op.kind);
  }
}

Result<std::shared_ptr<const RooflineTwin>> RooflineTwin::Of(const Worker& worker,
                                                             bool take_apart) {
  auto twin = std::make_shared<RooflineTwin>();
  const ModelPlan& plan = worker.plan();
  List(plan.context_ops, twin->context_);
  List(plan.generation_ops, twin->generation_);
  List(plan.encoder_ops, twin->encoder_);

  ModelPlan light = plan;
  light.attention_backend.reset();  // rooflines are the same for all kernels
  ModelPlan members = light;
  members.encoder_ops.clear();
  light.context_ops = WithProjections(plan.context_ops, plan.facts.hidden_size);
  light.generation_ops = WithProjections(plan.generation_ops, plan.facts.hidden_size);
  if (take_apart) {
    light.context_ops = TakenApart(light.context_ops, false);
    light.generation_ops = TakenApart(light.generation_ops, false);
    members.context_ops = TakenApart(plan.context_ops, true);
    members.generation_ops = TakenApart(plan.generation_ops, true);
    List(members.context_ops, twin->context_);
    List(members.generation_ops, twin->generation_);
  }
  const Database& database = worker.engine().database();
  IC_ASSIGN(twin->rooflines_,
            Worker::Create(std::move(light), database.WithMode(DatabaseMode::kSol)));
  if (take_apart && !(members.context_ops.empty() && members.generation_ops.empty())) {
    IC_ASSIGN(twin->members_, Worker::Create(std::move(members), database));
  }
  return twin;
}

const RooflineTwin::Known* RooflineTwin::Find(std::string_view name, PassKind kind) const {
  if (name.ends_with(kScaled)) name.remove_suffix(kScaled.size());
  const auto in = [&](const Inventory& list) -> const Known* {
    const auto found = list.find(name);
    return found == list.end() ? nullptr : &found->second;
  };
  switch (kind) {
    case PassKind::kContext:
      return in(context_);
    case PassKind::kGeneration:
      return in(generation_);
    case PassKind::kEncoder:
      return in(encoder_);
    case PassKind::kMixed: {
      const Known* found = in(context_);
      return found != nullptr ? found : in(generation_);
    }
  }
  return nullptr;
}

std::vector<OperatorBound> RooflineTwin::Classify(const Breakdown& priced,
                                                  const Breakdown& rooflines,
                                                  const Breakdown* members, PassKind kind,
                                                  double passes) const {
  std::vector<OperatorBound> out;
  out.reserve(priced.entries.size());
  for (const OpEntry& e : priced.entries) {
    OperatorBound& bound = out.emplace_back();
    const Known* known = Find(e.name, kind);
    if (known != nullptr) {
      bound.role = known->role;
      bound.count = known->count;
    }
    Parts parts;
    double latency_ms = e.latency_ms;
    double calls = bound.count * passes;
    int kernels = known != nullptr ? known->kernels : 1;
    if (const OpEntry* light = EntryOf(rooflines, e.name)) {
      parts.AddRoofline(*light);
    } else if (known != nullptr && known->overlap) {
      // The longer of the two groups tells.
      std::array<Parts, 2> groups;
      std::array<OperatorRole, 2> roles{};
      std::array<int, 2> group_kernels{};
      std::array<double, 2> longest{};
      for (const OpEntry& light : rooflines.entries) {
        if (!light.name.starts_with(e.name + kMember)) continue;
        const std::size_t g = light.name[e.name.size() + 1] == 'a' ? 0 : 1;
        const OpEntry* real = members != nullptr ? EntryOf(*members, light.name) : nullptr;
        const double real_ms = real != nullptr ? real->latency_ms : light.latency_ms;
        const Known* member = Find(light.name, kind);
        groups[g].AddRoofline(light);
        groups[g].latency_ms += real_ms;
        if (member == nullptr) continue;
        group_kernels[g] += member->kernels;
        if (member->role == OperatorRole::kCommunication) groups[g].communication_ms += real_ms;
        if (real_ms >= longest[g]) {
          longest[g] = real_ms;
          roles[g] = member->role;
        }
      }
      const std::size_t longer = groups[1].latency_ms > groups[0].latency_ms ? 1 : 0;
      parts = groups[longer];
      kernels = group_kernels[longer];
      bound.role = 2 * parts.communication_ms > parts.latency_ms ? OperatorRole::kCommunication
                                                                 : roles[longer];
    }
    if (parts.all_light) {
      bound.bound_ms = parts.bound_ms;
      bound.compute_ms = parts.compute_ms;
      bound.memory_ms = parts.memory_ms;
      if (bound.bound_ms > 0 && latency_ms > 0) bound.attained = bound.bound_ms / latency_ms;
    }
    // Collectives and hand-overs that belong to no worker's list.
    if (known == nullptr && e.name.find("afd_") != std::string::npos) {
      bound.role = OperatorRole::kCommunication;
    }
    bound.bound = ClassifyBound(bound.role, latency_ms, calls, kernels, bound.bound_ms,
                                bound.compute_ms, bound.memory_ms);
  }
  return out;
}

}  // namespace infercast
