// Composition of operator latencies into phases and steps.
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/ordinals.h"
#include "engine/joint_step.h"

namespace infercast {

namespace {

constexpr std::uint32_t kU32Max = std::numeric_limits<std::uint32_t>::max();

std::uint32_t SaturatingMul(std::uint64_t a, std::uint64_t b) {
  return a != 0 && b > kU32Max / a ? kU32Max : static_cast<std::uint32_t>(a * b);
}

Error NothingLeft(std::int64_t effective) {
  return {
      ErrorKind::kInvalidEngineConfig,
      fmt::format("isl must be larger than the cached prefix: {} new tokens are left", effective)};
}

bool Keeps(const BoundOperator& op, Engine::Filter filter, bool context) {
  const bool attention = context ? op.is_context_attention() : op.is_generation_attention();
  switch (filter) {
    case Engine::Filter::kAll:
      return true;
    case Engine::Filter::kSkipAttention:
      return !attention;
    case Engine::Filter::kOnlyAttention:
      return attention;
  }
  return true;
}

// Queries each kept operator in order and hands the results to `sink(op, result)`.
template <typename Sink>
Status WalkContext(std::span<const BoundOperator> ops, std::uint32_t batch, std::uint32_t s,
                   std::uint32_t prefix, double imbalance, Engine::Filter filter,
                   std::optional<std::uint32_t> x, Sink&& sink) {
  for (const BoundOperator& op : ops) {
    if (!Keeps(op, filter, true)) continue;
    const Result<PerfResult> r = op.Query(ContextQuery(op, batch, s, prefix, imbalance, x));
    if (!r) return std::unexpected(r.error());
    sink(op, *r);
  }
  return {};
}

template <typename Sink>
Status WalkGeneration(std::span<const BoundOperator> ops, const QueryContext& query,
                      Engine::Filter filter, Sink&& sink) {
  for (const BoundOperator& op : ops) {
    if (!Keeps(op, filter, false)) continue;
    const Result<PerfResult> r = op.Query(query);
    if (!r) return std::unexpected(r.error());
    sink(op, *r);
  }
  return {};
}

// Sinks: a cost, or a breakdown by name.
auto Into(StepCost& cost) {
  return [&cost](const BoundOperator&, const PerfResult& r) { cost.Add(r); };
}
auto Into(Breakdown& breakdown) {
  return
      [&breakdown](const BoundOperator& op, const PerfResult& r) { breakdown.Add(op.name(), r); };
}

void Accumulate(StepCost& total, const StepCost& step, double times) { total.Add(step, times); }
void Accumulate(Breakdown& total, Breakdown& step, double times) {
  step.Scale(times);
  for (const OpEntry& e : step.entries) total.Add(e);
}

// Geometry of a mixed step, shared by its scalar and per-operator forms.
struct MixedPlan {
  std::uint32_t isl;
  std::uint32_t shared_tokens = 0;
  std::uint32_t shared_prefix = 0;
  std::uint32_t prefill_batch = 0;
  std::uint32_t prefill_chunks = 1;
  std::uint32_t decode_batch = 0;
  std::uint32_t decode_s = 0;
};

Result<MixedPlan> PlanMixed(const MixedShape& shape, std::uint32_t nextn) {
  MixedPlan plan;
  plan.isl = std::max(shape.isl, 1U);
  plan.decode_batch = SaturatingMul(shape.decodes, std::uint64_t{nextn} + 1);
  const std::uint64_t tokens = std::uint64_t{shape.context_tokens} + plan.decode_batch;
  const std::uint64_t cached = std::uint64_t{shape.prefix} * (shape.context_tokens / plan.isl);
  if (cached >= tokens) {
    return std::unexpected(
        NothingLeft(static_cast<std::int64_t>(tokens) - static_cast<std::int64_t>(cached)));
  }
  plan.shared_tokens =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens - cached, kU32Max));
  plan.shared_prefix = static_cast<std::uint32_t>(std::min<std::uint64_t>(cached, kU32Max));
  if (shape.context_tokens > 0) {
    plan.prefill_batch = static_cast<std::uint32_t>(CeilDiv(shape.context_tokens, plan.isl));
    plan.prefill_chunks = static_cast<std::uint32_t>(CeilDiv(plan.isl, shape.context_tokens));
  }
  plan.decode_s = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::uint64_t{plan.isl} + shape.osl / 2 + 1, kU32Max));
  return plan;
}

// Attention needs new tokens; checked after the shared pass, whose errors come first.
Status CheckPrefix(const MixedPlan& plan, const MixedShape& shape) {
  if (shape.prefix < plan.isl) return {};
  return std::unexpected(NothingLeft(std::int64_t{plan.isl} - std::int64_t{shape.prefix}));
}

Result<JointWork> JointWorkOf(const MixedShape& shape, std::uint32_t nextn) {
  IC_ASSIGN(const MixedPlan plan, PlanMixed(shape, nextn));
  JointWork work;
  if (shape.context_tokens > 0) {
    IC_RETURN_IF_ERROR(CheckPrefix(plan, shape));
    work.prompts = plan.prefill_batch;
    work.new_tokens = plan.isl - shape.prefix;
    work.prefix = shape.prefix;
    work.prefill_tokens = shape.context_tokens - plan.shared_prefix;
    work.prefill_chunks = plan.prefill_chunks;
  }
  work.sequences = plan.decode_batch;
  work.kv_length = plan.decode_s;
  work.context_imbalance = shape.context_imbalance;
  work.generation_imbalance = shape.generation_imbalance;
  return work;
}

bool ContainsWholeForward(const Operator& op) {
  if (std::holds_alternative<FpmForward>(op.kind)) return true;
  const auto any = [](const std::vector<Operator>& ops) {
    return std::any_of(ops.begin(), ops.end(), ContainsWholeForward);
  };
  if (const auto* overlap = std::get_if<Overlap>(&op.kind)) {
    return any(overlap->group_a) || any(overlap->group_b);
  }
  if (const auto* fallback = std::get_if<Fallback>(&op.kind)) {
    return (fallback->primary && ContainsWholeForward(*fallback->primary)) ||
           any(fallback->fallback);
  }
  return false;
}

// The part of a mixed pass that is priced as a prefill over all its tokens, beside `extra` for the
// decodes: so that both together are neither below the larger of the passes apart nor above their
// sum.
double BoundedShare(double share, double extra, double prefill, double decode) {
  return std::clamp(share, std::max(prefill, decode) - extra, prefill + decode - extra);
}

bool IsWholePhase(const std::vector<Operator>& ops, FpmPhase phase) {
  const auto* op = ops.size() == 1 ? std::get_if<FpmForward>(&ops[0].kind) : nullptr;
  return op != nullptr && op->phase == phase;
}

}  // namespace

QueryContext ContextQuery(const BoundOperator& op, std::uint32_t batch, std::uint32_t s,
                          std::uint32_t prefix, double imbalance, std::optional<std::uint32_t> x) {
  QueryContext q;
  q.batch_size = batch;
  q.s = s;
  q.prefix = prefix;
  // Of a prompt only the last token needs logits. The product wraps where it exceeds 32 bits.
  q.num_tokens = x ? *x : op.is_logits_gemm() ? batch : batch * s;
  q.seq_imbalance_correction_scale = imbalance;
  return q;
}

QueryContext GenerationQuery(std::uint32_t batch, std::uint32_t beam, std::uint32_t s,
                             double imbalance, std::uint32_t prefix,
                             std::optional<std::uint32_t> x) {
  QueryContext q;
  q.batch_size = batch;
  q.beam_width = beam;
  q.s = s;
  q.prefix = prefix;
  q.num_tokens = x ? *x : SaturatingMul(batch, std::max(beam, 1U));
  q.gen_seq_imbalance_correction_scale = imbalance;
  return q;
}

Result<std::shared_ptr<const Engine>> Engine::Bind(const EngineSpec& spec, const Database& db) {
  if (spec.schema_version != kEngineSpecSchemaVersion) {
    return Fail(ErrorKind::kUnsupportedSchemaVersion,
                fmt::format("unsupported schema version for EngineSpec: got {}, expected {}",
                            spec.schema_version, kEngineSpecSchemaVersion));
  }
  const std::uint32_t nextn = spec.engine.nextn.value_or(0);
  const auto any_whole = [](const std::vector<Operator>& ops) {
    return std::any_of(ops.begin(), ops.end(), ContainsWholeForward);
  };
  const bool whole = any_whole(spec.context_ops) || any_whole(spec.generation_ops);
  if (whole) {
    if (!IsWholePhase(spec.context_ops, FpmPhase::kPrefill) ||
        !IsWholePhase(spec.generation_ops, FpmPhase::kDecode)) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  "a whole-forward engine must have exactly one FpmForward operator per phase: "
                  "prefill in context_ops, decode in generation_ops");
    }
    if (nextn != 0) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("a whole-forward engine cannot speculate (nextn = {})", nextn));
    }
  }
  std::shared_ptr<Engine> engine(new Engine(db));
  engine->nextn_ = nextn;
  for (const Operator& op : spec.context_ops) {
    engine->context_.push_back(BoundOperator::Bind(op, db));
  }
  for (const Operator& op : spec.generation_ops) {
    engine->generation_.push_back(BoundOperator::Bind(op, db));
  }
  if (whole) {
    engine->whole_prefill_ = std::get_if<BoundFpmForward>(&engine->context_[0].bound());
    engine->whole_decode_ = std::get_if<BoundFpmForward>(&engine->generation_[0].bound());
  } else if (db.behaviour() == Behaviour::kNative) {
    engine->joint_ = std::make_shared<const JointStep>(spec);
  }
  return engine;
}

Result<std::shared_ptr<const Engine>> Engine::Open(const EngineSpec& spec,
                                                   const std::filesystem::path& systems_root,
                                                   Behaviour behaviour) {
  const EngineConfig& config = spec.engine;
  if (!config.backend_version) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                "backend_version is required to load the performance database");
  }
  const std::optional<Backend> backend = ParseEnum<Backend>(config.backend);
  if (!backend) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("unknown backend '{}': use trtllm, sglang or vllm", config.backend));
  }
  TransferPolicy policy;
  if (config.transfer_policy) {
    policy = {false, false, false, false};
    for (const std::string& kind : *config.transfer_policy) {
      if (kind == "xshape") {
        policy.xshape = true;
      } else if (kind == "xquant") {
        policy.xquant = true;
      } else if (kind == "xprofile") {
        policy.xprofile = true;
      } else if (kind == "xop") {
        policy.xop = true;
      } else {
        return Fail(
            ErrorKind::kInvalidEngineConfig,
            fmt::format("unknown transfer kind \"{}\": use xshape, xquant, xprofile, xop", kind));
      }
    }
  }
  const DatabaseMode mode = config.database_mode;
  DatabaseIdentity identity;
  identity.systems_root =
      config.systems_path ? std::filesystem::path(*config.systems_path) : systems_root;
  identity.system = config.system_name;
  identity.backend = *backend;
  identity.version = *config.backend_version;
  identity.shared_layer = config.enable_shared_layer.value_or(mode == DatabaseMode::kSilicon ||
                                                              mode == DatabaseMode::kHybrid);
  identity.strict_provenance = config.strict_provenance;
  identity.tolerate_missing_dir = config.tolerate_dirless_version || mode == DatabaseMode::kSol;
  IC_ASSIGN(std::shared_ptr<TableStore> store, TableStore::Open(identity));
  return Bind(spec, Database(std::move(store), mode, policy, behaviour));
}

Result<StepCost> Engine::ContextPass(std::uint32_t batch, std::uint32_t s, std::uint32_t prefix,
                                     double imbalance, Filter filter,
                                     std::optional<std::uint32_t> x) const {
  StepCost cost;
  IC_RETURN_IF_ERROR(WalkContext(context_, batch, s, prefix, imbalance, filter, x, Into(cost)));
  return cost;
}

Result<StepCost> Engine::GenerationPass(std::uint32_t batch, std::uint32_t beam, std::uint32_t s,
                                        double imbalance, Filter filter, std::uint32_t prefix,
                                        std::optional<std::uint32_t> x) const {
  StepCost cost;
  IC_RETURN_IF_ERROR(WalkGeneration(
      generation_, GenerationQuery(batch, beam, s, imbalance, prefix, x), filter, Into(cost)));
  return cost;
}

// One code path for scalar and per-operator static runs; `Sink` provides context(), generation()
// and Step, the type that one sampled decode step is gathered in.
template <typename Sink>
Status Engine::StaticPhases(const RuntimeShape& shape, StaticMode mode, std::uint32_t stride,
                            Sink&& sink) const {
  if (mode != StaticMode::kGeneration) {
    if (shape.prefix >= shape.isl) {
      return std::unexpected(NothingLeft(std::int64_t{shape.isl} - std::int64_t{shape.prefix}));
    }
    IC_RETURN_IF_ERROR(WalkContext(context_, shape.batch_size, shape.isl - shape.prefix,
                                   shape.prefix, shape.context_imbalance, Filter::kAll,
                                   std::nullopt, Into(sink.context)));
  }
  if (mode != StaticMode::kContext && shape.osl > 1) {
    const std::uint32_t batch = SaturatingMul(shape.batch_size, std::uint64_t{nextn_} + 1);
    const std::uint64_t steps = shape.osl - 1;
    const std::uint64_t stretch = std::max(stride, 1U);
    for (std::uint64_t i = 0; i < steps; i += stretch) {
      const auto s =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.isl + i + 1, kU32Max));
      auto step = decltype(sink.generation){};
      IC_RETURN_IF_ERROR(WalkGeneration(
          generation_,
          GenerationQuery(batch, shape.beam_width, s, shape.generation_imbalance, 0, std::nullopt),
          Filter::kAll, Into(step)));
      Accumulate(sink.generation, step, static_cast<double>(std::min(stretch, steps - i)));
    }
  }
  return {};
}

Result<StaticCost> Engine::RunStatic(const RuntimeShape& shape, StaticMode mode,
                                     std::uint32_t stride) const {
  StaticCost cost;
  IC_RETURN_IF_ERROR(StaticPhases(shape, mode, stride, cost));
  return cost;
}

Result<StaticBreakdown> Engine::ExplainStatic(const RuntimeShape& shape, StaticMode mode,
                                              std::uint32_t stride) const {
  StaticBreakdown breakdown;
  IC_RETURN_IF_ERROR(StaticPhases(shape, mode, stride, breakdown));
  return breakdown;
}

Result<double> Engine::PredictPrefill(std::uint32_t batch, std::uint32_t isl,
                                      std::uint32_t prefix) const {
  RuntimeShape shape;
  shape.batch_size = batch;
  shape.isl = isl;
  shape.prefix = prefix;
  IC_ASSIGN(const StaticCost cost, RunStatic(shape, StaticMode::kContext));
  return cost.total_ms();
}

Result<double> Engine::PredictDecode(std::uint32_t batch, std::uint32_t isl,
                                     std::uint32_t osl) const {
  RuntimeShape shape;
  shape.batch_size = batch;
  shape.isl = isl;
  shape.osl = osl;
  IC_ASSIGN(const StaticCost cost, RunStatic(shape, StaticMode::kGeneration));
  return cost.total_ms();
}

// One code path for scalar and per-operator mixed steps of reference behaviour that are not
// measured as a whole.
template <typename Parts>
Status Engine::MixedParts(const MixedShape& shape, Parts& parts) const {
  IC_ASSIGN(const MixedPlan plan, PlanMixed(shape, nextn_));
  IC_RETURN_IF_ERROR(WalkContext(context_, 1, plan.shared_tokens, plan.shared_prefix,
                                 shape.context_imbalance, Filter::kSkipAttention, std::nullopt,
                                 Into(parts.shared)));
  if (shape.context_tokens > 0) {
    IC_RETURN_IF_ERROR(CheckPrefix(plan, shape));
    IC_RETURN_IF_ERROR(WalkContext(context_, plan.prefill_batch, plan.isl - shape.prefix,
                                   shape.prefix, shape.context_imbalance, Filter::kOnlyAttention,
                                   std::nullopt, Into(parts.context_attention)));
    parts.context_attention.Divide(plan.prefill_chunks);
  }
  if (shape.decodes > 0) {
    IC_RETURN_IF_ERROR(WalkGeneration(generation_,
                                      GenerationQuery(plan.decode_batch, 1, plan.decode_s,
                                                      shape.generation_imbalance, 0, std::nullopt),
                                      Filter::kOnlyAttention, Into(parts.decode_attention)));
  }
  return {};
}

Result<MixedCost> Engine::MixedStep(const MixedShape& shape) const {
  MixedCost cost;
  if (shape.context_tokens == 0 && shape.decodes == 0) return cost;
  if (is_whole_forward()) return WholeMixedStep(shape);
  if (joint_) {
    IC_ASSIGN(const JointWork work, JointWorkOf(shape, nextn_));
    return joint_->Cost(context_, generation_, work);
  }
  IC_RETURN_IF_ERROR(MixedParts(shape, cost));
  return cost;
}

Result<MixedBreakdown> Engine::ExplainMixedStep(const MixedShape& shape) const {
  MixedBreakdown out;
  if (shape.context_tokens == 0 && shape.decodes == 0) return out;
  if (is_whole_forward()) {
    IC_ASSIGN(const MixedCost cost, WholeMixedStep(shape));
    if (shape.context_tokens > 0) {
      out.shared.Add(context_[0].name(), PerfResult::Of(cost.shared.latency_ms, 0, Source::kSilicon,
                                                        OriginKind::kInterpolated));
    }
    if (shape.decodes > 0) {
      out.decode_attention.Add(generation_[0].name(),
                               PerfResult::Of(cost.decode_attention.latency_ms, 0, Source::kSilicon,
                                              OriginKind::kInterpolated));
    }
    return out;
  }
  if (joint_) {
    IC_ASSIGN(const JointWork work, JointWorkOf(shape, nextn_));
    return joint_->Explain(context_, generation_, work);
  }
  IC_RETURN_IF_ERROR(MixedParts(shape, out));
  return out;
}

Result<StepCost> Engine::WholeGeneration(std::uint32_t batch, std::uint32_t isl,
                                         std::uint32_t osl) const {
  RuntimeShape shape;
  shape.batch_size = batch;
  shape.isl = isl;
  shape.osl = osl;
  IC_ASSIGN(const StaticCost cost, RunStatic(shape, StaticMode::kGeneration));
  return cost.generation;
}

Result<MixedCost> Engine::WholeMixedStep(const MixedShape& shape) const {
  MixedCost cost;
  const std::uint32_t isl = std::max(shape.isl, 1U);
  const std::uint32_t fresh = isl > shape.prefix ? isl - shape.prefix : 0;
  const std::uint32_t ctx = shape.context_tokens;
  const double decodes = shape.decodes;
  // The same prefill without the decodes' tokens, for the bounds of native behaviour. Where it lies
  // outside what was measured, only the decode step bounds the whole, from below.
  const bool bounded = db_.behaviour() == Behaviour::kNative && ctx > 0 && shape.decodes > 0;
  std::optional<double> prefill = bounded ? std::optional<double>(0) : std::nullopt;
  const auto pass = [&](double requests, double tokens, double cached) -> Result<double> {
    IC_ASSIGN(const PerfResult r,
              whole_prefill_->QueryPrefillTotals(requests, tokens + decodes, cached));
    if (prefill) {
      const Result<PerfResult> alone = whole_prefill_->QueryPrefillTotals(requests, tokens, cached);
      prefill = alone ? std::optional(*prefill + alone->latency_ms) : std::nullopt;
    }
    return r.latency_ms;
  };
  if (ctx > 0) {
    if (fresh == 0) {
      return Fail(
          ErrorKind::kPerfDatabase,
          fmt::format("isl must be greater than prefix, got isl={} prefix={}", isl, shape.prefix));
    }
    if (ctx >= fresh) {
      const double batch = static_cast<double>(CeilDiv(ctx, fresh));
      IC_ASSIGN(cost.shared.latency_ms, pass(batch, ctx, batch * shape.prefix));
    } else {
      double sum = 0;
      std::uint32_t chunks = 0;
      for (std::uint32_t done = 0; done < fresh; ++chunks) {
        const std::uint32_t c = std::min(ctx, fresh - done);
        IC_ASSIGN(const double ms, pass(1, c, static_cast<double>(shape.prefix) + done));
        sum += ms;
        done += c;
      }
      cost.shared.latency_ms = sum / chunks;
      if (prefill) *prefill /= chunks;
    }
  }
  if (shape.decodes > 0) {
    const auto middle = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{isl} + shape.osl / 2, kU32Max));
    IC_ASSIGN(const StepCost step, WholeGeneration(shape.decodes, middle, 2));
    double baseline = 0;
    if (ctx > 0) {
      const double batch = decodes * (nextn_ + 1);
      IC_ASSIGN(const PerfResult r,
                whole_decode_->QueryPassBaseline(batch, batch * (static_cast<double>(middle) + 1)));
      baseline = r.latency_ms;
    }
    const double extra = std::max(step.latency_ms - baseline, 0.0);
    cost.decode_attention.latency_ms = extra;
    if (prefill) {
      cost.shared.latency_ms =
          BoundedShare(cost.shared.latency_ms, extra, *prefill, step.latency_ms);
    } else if (bounded) {
      cost.shared.latency_ms = std::max(cost.shared.latency_ms, step.latency_ms - extra);
    }
  }
  return cost;
}

// One code path for scalar and per-operator decode steps.
template <typename Sink>
Status Engine::DecodeParts(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                           double generation_imbalance, Sink& sink) const {
  const auto s = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      std::uint64_t{std::max(isl, 1U)} + std::max(osl, 1U) / 2 + 1, kU32Max));
  return WalkGeneration(generation_,
                        GenerationQuery(SaturatingMul(decodes, std::uint64_t{nextn_} + 1), 1, s,
                                        generation_imbalance, 0, std::nullopt),
                        Filter::kAll, Into(sink));
}

Result<StepCost> Engine::DecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                                    double generation_imbalance) const {
  StepCost cost;
  if (decodes == 0) return cost;
  if (is_whole_forward()) {
    const std::uint64_t middle = std::uint64_t{isl} + osl / 2;
    return WholeGeneration(decodes,
                           static_cast<std::uint32_t>(std::min<std::uint64_t>(middle, kU32Max)), 2);
  }
  IC_RETURN_IF_ERROR(DecodeParts(decodes, isl, osl, generation_imbalance, cost));
  return cost;
}

Result<Breakdown> Engine::ExplainDecodeStep(std::uint32_t decodes, std::uint32_t isl,
                                            std::uint32_t osl, double generation_imbalance) const {
  Breakdown out;
  if (decodes == 0) return out;
  IC_RETURN_IF_ERROR(DecodeParts(decodes, isl, osl, generation_imbalance, out));
  return out;
}

Result<double> Engine::ObservedRank(const ScheduledRequests& r) const {
  const std::uint32_t np = std::max(r.num_prefill_requests, 1U);
  const std::uint32_t nd = std::max(r.num_decode_requests, 1U);
  const bool prefills = r.sum_prefill_tokens > 0;
  const bool decodes = r.num_decode_requests > 0 || r.sum_decode_kv_tokens > 0;
  if (is_whole_forward()) {
    double total = 0;
    if (prefills) {
      IC_ASSIGN(const PerfResult p,
                whole_prefill_->QueryPrefillTotals(r.num_prefill_requests, r.sum_prefill_tokens,
                                                   r.sum_prefill_kv_tokens));
      total = p.latency_ms;
    }
    if (decodes) {
      IC_ASSIGN(const PerfResult d,
                whole_decode_->QueryDecodeTotals(r.num_decode_requests, r.sum_decode_kv_tokens));
      double part = d.latency_ms;
      if (prefills) {
        IC_ASSIGN(const PerfResult base,
                  whole_decode_->QueryPassBaseline(r.num_decode_requests, r.sum_decode_kv_tokens));
        part = std::max(part - base.latency_ms, 0.0);
        if (db_.behaviour() == Behaviour::kNative) {
          total = BoundedShare(total, part, total, d.latency_ms);
        }
      }
      total += part;
    }
    return total;
  }
  if (!prefills && !decodes) return 0.0;
  if (joint_) {
    JointWork work;
    if (prefills) {
      work.prompts = np;
      work.new_tokens = std::max(r.sum_prefill_tokens / np, 1U);
      work.prefix = r.sum_prefill_kv_tokens / np;
      work.prefill_tokens = r.sum_prefill_tokens;  // not the prompts times their rounded mean
    }
    if (decodes) {
      work.sequences = nd;
      work.kv_length = std::max(r.sum_decode_kv_tokens / nd, 1U);
    }
    IC_ASSIGN(const MixedCost cost, joint_->Cost(context_, generation_, work));
    return cost.total_ms();
  }
  if (!decodes) {
    IC_ASSIGN(const StepCost cost,
              ContextPass(np, r.sum_prefill_tokens / np, r.sum_prefill_kv_tokens / np, 1));
    return cost.latency_ms;
  }
  if (!prefills) {
    IC_ASSIGN(const StepCost cost, GenerationPass(nd, 1, r.sum_decode_kv_tokens / nd, 1));
    return cost.latency_ms;
  }
  // Both: everything but attention once over all tokens, then each kind of attention on its own.
  const std::uint32_t tp = r.sum_prefill_tokens;
  const std::uint32_t per_request = std::max(tp / np, 1U);
  const auto tokens = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(std::uint64_t{tp} + r.num_decode_requests, 1, kU32Max));
  double total = 0;
  const auto add = [&](const BoundOperator&, const PerfResult& p) { total += p.latency_ms; };
  IC_RETURN_IF_ERROR(WalkContext(context_, 1, tokens, r.sum_prefill_kv_tokens, 1,
                                 Filter::kSkipAttention, std::nullopt, add));
  const double chunks = static_cast<double>(std::max<std::uint64_t>(CeilDiv(per_request, tp), 1));
  IC_RETURN_IF_ERROR(WalkContext(
      context_, static_cast<std::uint32_t>(std::max<std::uint64_t>(CeilDiv(tp, per_request), 1)),
      per_request, r.sum_prefill_kv_tokens / np, 1, Filter::kOnlyAttention, tp,
      [&](const BoundOperator&, const PerfResult& p) { total += p.latency_ms / chunks; }));
  IC_RETURN_IF_ERROR(WalkGeneration(
      generation_, GenerationQuery(nd, 1, std::max(r.sum_decode_kv_tokens / nd, 1U), 1, 0, nd),
      Filter::kOnlyAttention, add));
  return total;
}

Result<double> Engine::ObservedForwardPass(std::span<const ScheduledRequests> ranks) const {
  if (ranks.empty()) {
    return Fail(ErrorKind::kInvalidForwardPassMetrics,
                "at least one attention-DP rank metric is required");
  }
  for (const ScheduledRequests& r : ranks) {
    if (r.num_prefill_requests == 0 && (r.sum_prefill_tokens > 0 || r.sum_prefill_kv_tokens > 0)) {
      return Fail(ErrorKind::kInvalidForwardPassMetrics,
                  "prefill token sums require num_prefill_requests > 0");
    }
    if (r.num_decode_requests == 0 && r.sum_decode_kv_tokens > 0) {
      return Fail(ErrorKind::kInvalidForwardPassMetrics,
                  "a decode KV token sum requires num_decode_requests > 0");
    }
  }
  double slowest = 0;
  for (const ScheduledRequests& r : ranks) {
    IC_ASSIGN(const double ms, ObservedRank(r));
    slowest = std::max(slowest, ms);
  }
  return slowest;
}

Result<Breakdown> Engine::EvaluateContextOps(std::span<const std::size_t> indices,
                                             std::uint32_t batch, std::uint32_t s,
                                             std::uint32_t prefix, double imbalance,
                                             std::optional<std::uint32_t> x) const {
  Breakdown out;
  for (const std::size_t i : indices) {
    if (i >= context_.size()) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("context operator index {} is out of range ({} operators)", i,
                              context_.size()));
    }
    IC_RETURN_IF_ERROR(WalkContext(std::span(context_).subspan(i, 1), batch, s, prefix, imbalance,
                                   Filter::kAll, x, Into(out)));
  }
  return out;
}

Result<Breakdown> Engine::EvaluateGenerationOps(std::span<const std::size_t> indices,
                                                std::uint32_t batch, std::uint32_t s,
                                                double imbalance, std::uint32_t prefix,
                                                std::optional<std::uint32_t> x) const {
  Breakdown out;
  for (const std::size_t i : indices) {
    if (i >= generation_.size()) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("generation operator index {} is out of range ({} operators)", i,
                              generation_.size()));
    }
    IC_RETURN_IF_ERROR(WalkGeneration(std::span(generation_).subspan(i, 1),
                                      GenerationQuery(batch, 1, s, imbalance, prefix, x),
                                      Filter::kAll, Into(out)));
  }
  return out;
}

}  // namespace infercast
