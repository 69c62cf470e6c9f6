// Engine.
#include <array>
#include <limits>

#include "api/internal.h"
#include "models/compile.h"
#include "operators/perf_result.h"

namespace infercast::v1 {

using internal::BreakdownOf;
using internal::CostOf;
using internal::Guarded;

namespace {

infercast::RuntimeShape ShapeOf(const StaticShape& s) {
  infercast::RuntimeShape shape;
  shape.batch_size = s.batch_size;
  shape.beam_width = s.beam_width;
  shape.isl = s.isl;
  shape.osl = s.osl;
  shape.prefix = s.prefix;
  shape.context_imbalance = s.context_imbalance;
  shape.generation_imbalance = s.generation_imbalance;
  return shape;
}
infercast::MixedShape ShapeOf(const MixedShape& s) {
  return {s.context_tokens,      s.decodes, s.isl, s.osl, s.prefix, s.context_imbalance,
          s.generation_imbalance};
}
infercast::ScheduledRequests RecordOf(const ScheduledRequests& r) {
  return {r.num_prefill_requests, r.sum_prefill_tokens, r.sum_prefill_kv_tokens,
          r.num_decode_requests, r.sum_decode_kv_tokens};
}

// `ask(i)`: the latency of shape i.
template <typename Ask>
Result<std::vector<ShapeError>> Batch(std::size_t size, std::span<double> out, bool equal,
                                      Ask ask) {
  if (!equal || out.size() != size) {
    return internal::Refuse(ErrorKind::kInvalidArgument,
                            "the spans of a batch call must have the same length");
  }
  return Guarded<std::vector<ShapeError>>([&]() -> Result<std::vector<ShapeError>> {
    std::vector<ShapeError> errors;
    for (std::size_t i = 0; i < size; ++i) {
      auto answer = ask(i);
      if (answer) {
        out[i] = *answer;
        continue;
      }
      out[i] = std::numeric_limits<double>::quiet_NaN();
      errors.push_back({i, internal::Public(std::move(answer).error())});
    }
    return errors;
  });
}

}  // namespace

Result<Engine> Engine::Compile(const ModelOptions& options) {
  return Guarded<Engine>([&]() -> Result<Engine> {
    API_ASSIGN(const internal::OpenedModel opened, internal::OpenModel(options));
    const infercast::Database& database = opened.deployment->database();
    API_ASSIGN(infercast::ModelPlan plan, opened.deployment->Plan(opened.layout));
    API_ASSIGN(infercast::EngineSpec spec, infercast::CompileEngineSpec(std::move(plan), database));
    API_ASSIGN(auto engine, infercast::Engine::Bind(spec, database));
    return Engine(std::make_shared<const Impl>(Impl{
        EngineSpec(std::make_shared<const EngineSpec::Impl>(std::move(spec))), std::move(engine)}));
  });
}

Result<Engine> Engine::FromSpec(const EngineSpec& spec, const std::string& systems_paths,
                                const std::string& behaviour) {
  return Guarded<Engine>([&]() -> Result<Engine> {
    API_ASSIGN(const auto parsed, internal::ParseName<infercast::Behaviour>(behaviour));
    const infercast::EngineSpec& inner = spec.impl().spec;
    std::filesystem::path root;
    if (!inner.engine.systems_path) {
      API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(systems_paths));
      API_ASSIGN(root, around.systems.RootOf(inner.engine.system_name));
    }
    API_ASSIGN(auto engine, infercast::Engine::Open(inner, root, parsed));
    return Engine(std::make_shared<const Impl>(Impl{spec, std::move(engine)}));
  });
}

Result<Engine> Engine::Bind(const EngineSpec& spec, const PerfDatabase& database) {
  return Guarded<Engine>([&]() -> Result<Engine> {
    API_ASSIGN(auto engine, infercast::Engine::Bind(spec.impl().spec, database.impl().database));
    return Engine(std::make_shared<const Impl>(Impl{spec, std::move(engine)}));
  });
}

const EngineSpec& Engine::spec() const { return impl_->spec; }

Result<double> Engine::Prefill(std::uint32_t batch, std::uint32_t isl, std::uint32_t prefix) const {
  API_ASSIGN(const double ms, impl_->engine->PredictPrefill(batch, isl, prefix));
  return ms;
}

Result<double> Engine::Decode(std::uint32_t batch, std::uint32_t isl, std::uint32_t osl) const {
  API_ASSIGN(const double ms, impl_->engine->PredictDecode(batch, isl, osl));
  return ms;
}

Result<StaticCost> Engine::Static(const StaticShape& shape, std::uint32_t stride) const {
  API_ASSIGN(const infercast::StaticCost cost,
             impl_->engine->RunStatic(ShapeOf(shape), infercast::StaticMode::kBoth, stride));
  return StaticCost{CostOf(cost.context), CostOf(cost.generation)};
}

Result<MixedCost> Engine::MixedStep(const MixedShape& shape) const {
  API_ASSIGN(const infercast::MixedCost cost, impl_->engine->MixedStep(ShapeOf(shape)));
  return MixedCost{CostOf(cost.shared), CostOf(cost.context_attention),
                   CostOf(cost.decode_attention)};
}

Result<StepCost> Engine::DecodeStep(std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl,
                                    double generation_imbalance) const {
  API_ASSIGN(const infercast::StepCost cost,
             impl_->engine->DecodeStep(decodes, isl, osl, generation_imbalance));
  return CostOf(cost);
}

Result<double> Engine::ForwardPass(const ScheduledRequests& rank) const {
  const infercast::ScheduledRequests record = RecordOf(rank);
  API_ASSIGN(const double ms, impl_->engine->ObservedForwardPass(std::span(&record, 1)));
  return ms;
}

Result<double> Engine::ForwardPass(std::span<const ScheduledRequests> ranks) const {
  std::array<infercast::ScheduledRequests, 64> few;
  std::vector<infercast::ScheduledRequests> many;
  std::span<infercast::ScheduledRequests> records(few.data(), std::min(ranks.size(), few.size()));
  if (ranks.size() > few.size()) {
    many.resize(ranks.size());
    records = many;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) records[i] = RecordOf(ranks[i]);
  API_ASSIGN(const double ms, impl_->engine->ObservedForwardPass(records));
  return ms;
}

Result<StaticBreakdown> Engine::ExplainStatic(const StaticShape& shape,
                                              std::uint32_t stride) const {
  API_ASSIGN(const infercast::StaticBreakdown steps,
             impl_->engine->ExplainStatic(ShapeOf(shape), infercast::StaticMode::kBoth, stride));
  return StaticBreakdown{BreakdownOf(steps.context), BreakdownOf(steps.generation)};
}

Result<MixedBreakdown> Engine::ExplainMixedStep(const MixedShape& shape) const {
  API_ASSIGN(const infercast::MixedBreakdown steps,
             impl_->engine->ExplainMixedStep(ShapeOf(shape)));
  return MixedBreakdown{BreakdownOf(steps.shared), BreakdownOf(steps.context_attention),
                        BreakdownOf(steps.decode_attention)};
}

Result<Breakdown> Engine::ExplainDecodeStep(std::uint32_t decodes, std::uint32_t isl,
                                            std::uint32_t osl, double generation_imbalance) const {
  API_ASSIGN(const infercast::Breakdown step,
             impl_->engine->ExplainDecodeStep(decodes, isl, osl, generation_imbalance));
  return BreakdownOf(step);
}

Result<std::vector<ShapeError>> Engine::PrefillBatch(std::span<const std::uint32_t> batch,
                                                     std::span<const std::uint32_t> isl,
                                                     std::span<const std::uint32_t> prefix,
                                                     std::span<double> latency_ms) const {
  const bool equal = batch.size() == isl.size() && isl.size() == prefix.size();
  return Batch(batch.size(), latency_ms, equal, [&](std::size_t i) {
    return impl_->engine->PredictPrefill(batch[i], isl[i], prefix[i]);
  });
}

Result<std::vector<ShapeError>> Engine::DecodeBatch(std::span<const std::uint32_t> batch,
                                                    std::span<const std::uint32_t> isl,
                                                    std::span<const std::uint32_t> osl,
                                                    std::span<double> latency_ms) const {
  const bool equal = batch.size() == isl.size() && isl.size() == osl.size();
  return Batch(batch.size(), latency_ms, equal, [&](std::size_t i) {
    return impl_->engine->PredictDecode(batch[i], isl[i], osl[i]);
  });
}

Result<std::vector<ShapeError>> Engine::DecodeStepBatch(std::span<const std::uint32_t> decodes,
                                                        std::span<const std::uint32_t> isl,
                                                        std::span<const std::uint32_t> osl,
                                                        std::span<double> latency_ms) const {
  const bool equal = decodes.size() == isl.size() && isl.size() == osl.size();
  return Batch(decodes.size(), latency_ms, equal, [&](std::size_t i) -> infercast::Result<double> {
    IC_ASSIGN(const infercast::StepCost cost,
              impl_->engine->DecodeStep(decodes[i], isl[i], osl[i]));
    return cost.latency_ms;
  });
}

Result<std::vector<ShapeError>> Engine::MixedStepBatch(std::span<const MixedShape> shapes,
                                                       std::span<double> latency_ms) const {
  return Batch(shapes.size(), latency_ms, true, [&](std::size_t i) -> infercast::Result<double> {
    IC_ASSIGN(const infercast::MixedCost cost, impl_->engine->MixedStep(ShapeOf(shapes[i])));
    return cost.total_ms();
  });
}

Result<std::vector<ShapeError>> Engine::ForwardPassBatch(std::span<const ScheduledRequests> records,
                                                         std::span<double> latency_ms) const {
  return Batch(records.size(), latency_ms, true, [&](std::size_t i) {
    const infercast::ScheduledRequests record = RecordOf(records[i]);
    return impl_->engine->ObservedForwardPass(std::span(&record, 1));
  });
}

}  // namespace infercast::v1
