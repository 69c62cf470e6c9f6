#include "search/explain_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/blocks/vision_encoder.h"

namespace infercast {

namespace {

RuntimeShape ShapeOf(const Worker& worker, const Workload& workload, std::int64_t batch) {
  RuntimeShape shape;
  shape.batch_size = static_cast<std::uint32_t>(batch);
  shape.beam_width = static_cast<std::uint32_t>(workload.beam_width);
  shape.isl = static_cast<std::uint32_t>(workload.isl + worker.VisualTokensOf(workload));
  shape.osl = static_cast<std::uint32_t>(workload.osl);
  shape.prefix = static_cast<std::uint32_t>(workload.prefix);
  shape.context_imbalance = workload.context_imbalance;
  shape.generation_imbalance = workload.generation_imbalance;
  return shape;
}

void AddPhase(std::vector<EstimatePhase>& phases, const char* name, std::string about,
              Breakdown operators, PassKind kind, double passes = 1, double share = 0) {
  if (operators.entries.empty()) return;
  EstimatePhase& phase = phases.emplace_back();
  phase.name = name;
  phase.about = std::move(about);
  phase.operators = std::move(operators);
  phase.kind = kind;
  phase.passes = passes;
  phase.share = share;
}

std::string RequestsText(std::int64_t n) {
  return fmt::format("{} request{}", n, n == 1 ? "" : "s");
}

}  // namespace

const EstimatePhase* PhaseNamed(const std::vector<EstimatePhase>& phases, std::string_view name) {
  const auto found =
      std::ranges::find_if(phases, [&](const EstimatePhase& p) { return p.name == name; });
  return found == phases.end() ? nullptr : &*found;
}

std::string BoundsUnknown(const Error& error) {
  return "what bounds operators is not known: " + error.message;
}

Status ExplainSteps(const Worker& worker, const Workload& workload, const AggregatedRow& row,
                    std::vector<EstimatePhase>& phases) {
  const RuntimeShape shape = ShapeOf(worker, workload, row.bs);
  MixedShape mixed;
  mixed.context_tokens = static_cast<std::uint32_t>(row.ctx_tokens);
  mixed.decodes = static_cast<std::uint32_t>(row.mixed_decodes);
  mixed.isl = shape.isl;
  mixed.osl = shape.osl;
  mixed.prefix = shape.prefix;
  mixed.context_imbalance = workload.context_imbalance;
  mixed.generation_imbalance = workload.generation_imbalance;
  IC_ASSIGN(MixedBreakdown steps, worker.engine().ExplainMixedStep(mixed));
  if (worker.behaviour() == Behaviour::kReference) {
    // A prefill of several chunks counts in parts.
    for (OpEntry& e : steps.context_attention.entries) e.name += " (scaled)";
  }
  const double mixed_ms = row.num_mixed_steps * row.mixed_step_ms;
  const double decode_ms = row.num_decode_steps * row.decode_step_ms;
  const double all_ms = mixed_ms + decode_ms;
  Breakdown all = std::move(steps.shared);
  for (const Breakdown* part : {&steps.context_attention, &steps.decode_attention}) {
    for (const OpEntry& e : part->entries) all.Add(e);
  }
  AddPhase(phases, "mix_step",
           fmt::format("{} prefill tokens, {} decoding", row.ctx_tokens, row.mixed_decodes),
           std::move(all), PassKind::kMixed, 1, all_ms > 0 ? mixed_ms / all_ms : 0);
  if (row.decode_batch > 0) {
    IC_ASSIGN(Breakdown decode, worker.engine().ExplainDecodeStep(
                                    static_cast<std::uint32_t>(row.decode_batch), mixed.isl,
                                    mixed.osl, workload.generation_imbalance));
    AddPhase(phases, "genonly_step", fmt::format("{} decoding", row.decode_batch),
             std::move(decode), PassKind::kGeneration, 1, all_ms > 0 ? decode_ms / all_ms : 0);
  }
  IC_ASSIGN(Breakdown encoder, worker.Encode(workload, row.bs));
  AddPhase(phases, "encoder", RequestsText(row.bs), std::move(encoder), PassKind::kEncoder);
  return {};
}

Status ExplainBatch(const Worker& worker, const Workload& workload, const ExplainedBatch& batch,
                    std::vector<EstimatePhase>& phases) {
  const RuntimeShape shape = ShapeOf(worker, workload, batch.batch);
  IC_ASSIGN(StaticBreakdown operators,
            worker.engine().ExplainStatic(shape, batch.mode, batch.stride));
  Breakdown encoder;
  if (batch.mode != StaticMode::kGeneration) {
    IC_ASSIGN(encoder, worker.Encode(workload, batch.batch));
  }
  for (Breakdown* part : {&encoder, &operators.context, &operators.generation}) {
    if (batch.correction != 1) part->Scale(batch.correction);
  }
  const double encoder_ms = encoder.TotalLatency();
  const double context_ms = operators.context.TotalLatency();
  const double generation_ms = operators.generation.TotalLatency();
  const double all_ms = encoder_ms + context_ms + generation_ms;
  const auto share = [&](double ms) { return all_ms > 0 ? ms / all_ms : 0; };
  AddPhase(phases, "encoder", RequestsText(batch.batch), std::move(encoder), PassKind::kEncoder, 1,
           share(encoder_ms));
  AddPhase(phases, batch.context, RequestsText(batch.batch), std::move(operators.context),
           PassKind::kContext, 1, share(context_ms));
  const double steps = static_cast<double>(std::max<std::int64_t>(workload.osl - 1, 1));
  AddPhase(phases, batch.generation, fmt::format("{} decoding", batch.batch),
           std::move(operators.generation), PassKind::kGeneration, steps, share(generation_ms));
  return {};
}

Result<std::shared_ptr<const Worker>> EncodeWorkerOf(const Worker& language,
                                                     const EncoderStage& stage) {
  ModelPlan plan = language.plan();
  if (!plan.vision) return Fail(ErrorKind::kInvalidArgument, "the model has no vision encoder");
  plan.context_ops.clear();
  plan.generation_ops.clear();
  plan.attention_backend.reset();
  plan.vision->data_parallel = false;
  plan.layout = ParallelLayout{};
  plan.layout.tp = stage.tp;
  IC_ASSIGN(plan.encoder_ops, BuildVisionEncoder(*plan.vision, stage.tp, false));
  return Worker::Create(std::move(plan), language.engine().database());
}

Status ExplainEncoder(const Worker& worker, const Workload& workload, std::int64_t batch,
                      std::vector<EstimatePhase>& phases) {
  IC_ASSIGN(Breakdown encoder, worker.Encode(workload, batch));
  AddPhase(phases, "encoder", RequestsText(batch), std::move(encoder), PassKind::kEncoder);
  return {};
}

void AddBounds(const RooflineTwin& twin, const EstimatePhase* rooflines,
               const EstimatePhase* members, EstimatePhase& phase) {
  static const Breakdown kNothing;
  phase.bounds =
      twin.Classify(phase.operators, rooflines != nullptr ? rooflines->operators : kNothing,
                    members != nullptr ? &members->operators : nullptr, phase.kind, phase.passes);
}

Status AddBounds(const RooflineTwin& twin, ExplainWorker explain,
                 std::vector<EstimatePhase>& phases) {
  std::vector<EstimatePhase> light, members;
  Status status = explain(*twin.rooflines(), light);
  if (!status) light.clear();
  if (twin.members() != nullptr && !explain(*twin.members(), members)) members.clear();
  for (EstimatePhase& phase : phases) {
    AddBounds(twin, PhaseNamed(light, phase.name), PhaseNamed(members, phase.name), phase);
  }
  return status;
}

Status AddBounds(const Worker& worker, ExplainWorker explain, std::vector<EstimatePhase>& phases) {
  IC_ASSIGN(const std::shared_ptr<const RooflineTwin> twin, RooflineTwin::Of(worker));
  return AddBounds(*twin, explain, phases);
}

}  // namespace infercast
