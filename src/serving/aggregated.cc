// Continuous batching on one worker: prefill chunks ride with the decodes of other requests.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "serving/encoder.h"
#include "serving/evaluate.h"
#include "serving/schedule.h"
#include "serving/worker.h"

namespace infercast {

namespace {

Status CheckProgress(double progress, std::int64_t nextn) {
  if (std::isfinite(progress) && progress >= 1 && progress <= static_cast<double>(nextn + 1)) {
    return {};
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("tokens per decode iteration is {}: expected 1 to nextn + 1 = {}",
                          progress, nextn + 1));
}

}  // namespace

Result<AggregatedRow> EvaluateAggregated(const Worker& worker, const Workload& workload,
                                         std::int64_t batch, std::int64_t ctx_tokens,
                                         const EvaluationOptions& options) {
  IC_RETURN_IF_ERROR(CheckWorkload(workload, batch));
  if (ctx_tokens < 1 || ctx_tokens > (std::int64_t{1} << 31)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("context tokens per step is {}: expected 1 to 2^31", ctx_tokens));
  }
  const ModelPlan& plan = worker.plan();
  const Backend backend = worker.backend();
  const double progress = options.decode_progress.value_or(1.0);
  IC_RETURN_IF_ERROR(CheckProgress(progress, plan.nextn));

  const std::int64_t isl = workload.isl + worker.VisualTokensOf(workload);
  const std::int64_t osl = workload.osl;
  const double more_tokens = static_cast<double>(std::max<std::int64_t>(osl - 1, 0));
  const double b = static_cast<double>(batch);
  const AggregatedSchedule plan_of_steps =
      PlanAggregated(backend, batch, ctx_tokens, isl, osl, progress);

  MixedShape mixed;
  mixed.context_tokens = static_cast<std::uint32_t>(ctx_tokens);
  mixed.decodes = static_cast<std::uint32_t>(plan_of_steps.mixed_decodes);
  mixed.isl = static_cast<std::uint32_t>(isl);
  mixed.osl = static_cast<std::uint32_t>(osl);
  mixed.prefix = static_cast<std::uint32_t>(workload.prefix);
  mixed.context_imbalance = workload.context_imbalance;
  mixed.generation_imbalance = workload.generation_imbalance;
  IC_ASSIGN(const MixedCost mixed_cost, worker.engine().MixedStep(mixed));
  IC_ASSIGN(const StepCost decode_cost,
            worker.engine().DecodeStep(static_cast<std::uint32_t>(plan_of_steps.decode_batch),
                                       mixed.isl, mixed.osl, workload.generation_imbalance));
  IC_ASSIGN(const Breakdown encoder, worker.Encode(workload, batch));
  const double encoder_ms = encoder.TotalLatency();
  const double mixed_ms = mixed_cost.total_ms();
  const double decode_ms = decode_cost.latency_ms;

  AggregatedRow row;
  FillIdentity(worker, workload, batch, row);
  const ParallelLayout& layout = plan.layout;
  const double chunks = std::ceil(static_cast<double>(isl) / static_cast<double>(ctx_tokens));
  row.encoder_latency = encoder_ms;
  row.ttft =
      encoder_ms + (mixed_ms * chunks + PrefillDispatchOverhead(backend, plan.facts.num_layers)) *
                       FirstTokenQueueFactor(backend, batch, plan_of_steps.prefill_chunks);
  const double steps = plan_of_steps.mixed_steps_in_tpot + plan_of_steps.decode_steps;
  row.tpot = steps == 0 ? 0
                        : (mixed_ms * plan_of_steps.mixed_steps_in_tpot +
                           decode_ms * plan_of_steps.decode_steps) /
                              steps / progress;
  const double total_ms =
      encoder_ms + plan_of_steps.mixed_steps * mixed_ms + plan_of_steps.decode_steps * decode_ms;
  row.request_latency = row.ttft + row.tpot * more_tokens;
  // Little's law: b requests in flight cannot finish faster than their own latency allows.
  const bool limited = backend == Backend::kVllm && row.request_latency > 0;
  const double energy = encoder.TotalEnergy() +
                        plan_of_steps.mixed_steps * mixed_cost.energy_wms() +
                        plan_of_steps.decode_steps * decode_cost.energy_wms;
  row.power_w = total_ms > 0 ? energy / total_ms : 0;
  double powered = plan_of_steps.mixed_steps *
                       (mixed_cost.shared.powered_ms + mixed_cost.context_attention.powered_ms +
                        mixed_cost.decode_attention.powered_ms) +
                   plan_of_steps.decode_steps * decode_cost.powered_ms;
  for (const OpEntry& e : encoder.entries) {
    if (e.energy_wms > 0) powered += e.latency_ms;
  }
  row.power_coverage = total_ms > 0 ? std::clamp(powered / total_ms, 0.0, 1.0) : 0;

  const double replicas = static_cast<double>(layout.pp * layout.dp);
  row.concurrency = b * replicas;
  if (worker.behaviour() == Behaviour::kReference) {
    // Tokens after the first of each request.
    double throughput =
        osl > 1 && total_ms > 0 ? 1000 / total_ms * b * static_cast<double>(osl - 1) : 0;
    if (limited) throughput = std::min(throughput, b * more_tokens * 1000 / row.request_latency);
    row.tokens_s = throughput * replicas;
    row.seq_s = osl > 1 ? row.tokens_s / static_cast<double>(osl - 1) : 0;
  } else {
    // All generated tokens, as pools count them.
    double requests = total_ms > 0 ? 1000 / total_ms * b : 0;
    if (limited) requests = std::min(requests, b * 1000 / row.request_latency);
    row.seq_s = requests * replicas;
    row.tokens_s = row.seq_s * static_cast<double>(osl);
  }
  row.request_rate = row.seq_s;
  const auto per_gpu = [&](double rate) {
    return rate / static_cast<double>(layout.pp) / static_cast<double>(layout.tp) /
           static_cast<double>(layout.dp) / static_cast<double>(layout.cp);
  };
  row.tokens_s_gpu = per_gpu(row.tokens_s);
  row.seq_s_gpu = per_gpu(row.seq_s);
  row.tokens_s_user = osl > 1 && row.tpot > 0 ? 1000 / row.tpot : 0;

  // Requests of a step, and the memory they need.
  const double prefills = std::ceil(static_cast<double>(ctx_tokens) / static_cast<double>(isl));
  row.num_ctx_reqs = batch == 1 ? 1 : prefills;
  row.num_gen_reqs = batch == 1 ? 1 : b - prefills;
  row.num_tokens = batch == 1 ? static_cast<double>(ctx_tokens)
                              : row.num_gen_reqs + static_cast<double>(ctx_tokens);
  row.ctx_tokens = ctx_tokens;
  row.balance_score = plan_of_steps.balance;
  row.mixed_step_ms = mixed_ms;
  row.decode_step_ms = decode_ms;
  row.num_mixed_steps = plan_of_steps.mixed_steps;
  row.num_decode_steps = plan_of_steps.decode_steps;
  row.mixed_decodes = plan_of_steps.mixed_decodes;
  row.decode_batch = plan_of_steps.decode_batch;
  row.decode_iterations = plan_of_steps.decode_iterations;

  const bool trtllm = backend == Backend::kTrtllm;
  MemoryQuery query;
  query.batch = batch;
  query.isl = isl;
  query.osl = osl;
  query.prefix = workload.prefix;
  query.encoder = EstimateEncoderMemory(plan, workload, batch);
  if (query.encoder) row.encoder_memory = query.encoder->total();
  if (trtllm) {
    query.num_tokens = options.max_num_tokens;
    query.max_seq_len = options.max_seq_len.value_or(isl + osl);
  } else {
    query.num_tokens = static_cast<std::int64_t>(row.num_tokens);
    query.mtp_tokens = batch == 1 ? 0 : static_cast<std::int64_t>(row.num_gen_reqs);
    // The reference reserves isl + osl here whatever the engine's limit is.
    if (worker.behaviour() == Behaviour::kNative) query.max_seq_len = options.max_seq_len;
  }
  IC_ASSIGN(row.memory, EstimateMemory(worker.memory(), worker.system(), query));
  if (batch == 1 && osl > 1 && !trtllm) {
    // Alone, the request also decodes without a prefill beside it.
    MemoryQuery decode = query;
    decode.num_tokens = 1;
    decode.mtp_tokens = std::nullopt;
    IC_ASSIGN(const MemoryUsage usage, EstimateMemory(worker.memory(), worker.system(), decode));
    if (usage.total > row.memory.total) row.memory = usage;
  }
  const double fraction = options.memory_fraction.value_or(
      DefaultAggregateFraction(backend, worker.identity().version));
  row.verdict =
      CheckMemory(row.memory, worker.capacity_bytes(), fraction, BackendMemoryOf(backend));
  return row;
}

}  // namespace infercast
