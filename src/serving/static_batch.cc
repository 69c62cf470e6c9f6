// Static batches: a prefill of all requests, then the decode of all, no arrivals in between.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "serving/encoder.h"
#include "serving/evaluate.h"
#include "serving/worker.h"

namespace infercast {

Status CheckWorkload(const Workload& workload, std::int64_t batch) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto check = [&](const char* what, std::int64_t value, std::int64_t low) -> Status {
    if (value >= low && value <= kMax) return {};
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} is {}: expected a number from {} to {}", what, value, low, kMax));
  };
  IC_RETURN_IF_ERROR(check("isl", workload.isl, 1));
  IC_RETURN_IF_ERROR(check("osl", workload.osl, 1));
  IC_RETURN_IF_ERROR(check("prefix", workload.prefix, 0));
  IC_RETURN_IF_ERROR(check("batch size", batch, 1));
  IC_RETURN_IF_ERROR(check("beam width", workload.beam_width, 1));
  IC_RETURN_IF_ERROR(check("image height", workload.image_height, 0));
  IC_RETURN_IF_ERROR(check("image width", workload.image_width, 0));
  IC_RETURN_IF_ERROR(check("image tokens", workload.num_image_tokens, 0));
  IC_RETURN_IF_ERROR(check("images per request", workload.num_images, 0));
  return {};
}

void FillIdentity(const Worker& worker, const Workload& workload, std::int64_t batch,
                  WorkerRow& row) {
  const ParallelLayout& layout = worker.plan().layout;
  row.worker = &worker.identity();
  row.isl = workload.isl;
  row.osl = workload.osl;
  row.prefix = workload.prefix;
  row.bs = batch;
  row.global_bs = batch * layout.dp;
  row.num_total_gpus = layout.GpusPerWorker();
}

Result<StaticRow> EvaluateStatic(const Worker& worker, const Workload& workload, std::int64_t batch,
                                 StaticMode mode, const EvaluationOptions& options) {
  IC_RETURN_IF_ERROR(CheckWorkload(workload, batch));
  const ParallelLayout& layout = worker.plan().layout;
  const std::int64_t isl = workload.isl + worker.VisualTokensOf(workload);
  const std::int64_t osl = workload.osl;

  RuntimeShape shape;
  shape.batch_size = static_cast<std::uint32_t>(batch);
  shape.beam_width = static_cast<std::uint32_t>(workload.beam_width);
  shape.isl = static_cast<std::uint32_t>(isl);
  shape.osl = static_cast<std::uint32_t>(osl);
  shape.prefix = static_cast<std::uint32_t>(workload.prefix);
  shape.context_imbalance = workload.context_imbalance;
  shape.generation_imbalance = workload.generation_imbalance;
  IC_ASSIGN(const StaticCost cost, worker.engine().RunStatic(shape, mode, options.stride));
  Breakdown encoder;
  if (mode != StaticMode::kGeneration) {
    IC_ASSIGN(encoder, worker.Encode(workload, batch));
  }
  const double c = options.latency_correction;
  const double encoder_ms = encoder.TotalLatency() * c;
  const double encoder_energy = encoder.TotalEnergy() * c;
  const double context_ms = cost.context.latency_ms * c;
  const double generation_ms = cost.generation.latency_ms * c;

  StaticRow row;
  FillIdentity(worker, workload, batch, row);
  row.concurrency = static_cast<double>(row.global_bs);
  row.encoder_latency = encoder_ms;
  row.context_latency = context_ms;
  row.generation_latency = generation_ms;
  row.ttft = encoder_ms + context_ms;
  row.tpot = osl <= 1 ? 0 : generation_ms / static_cast<double>(osl - 1);
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(osl - 1, 0));
  if (row.request_latency == 0) row.request_latency = encoder_ms + context_ms + generation_ms;
  row.seq_s = row.request_latency == 0 ? 0
                                       : static_cast<double>(row.global_bs) / row.request_latency *
                                             1000 * static_cast<double>(layout.pp);
  const auto per_gpu = [&](double rate) {
    double per = rate / static_cast<double>(layout.tp) / static_cast<double>(layout.pp) /
                 static_cast<double>(layout.dp);
    // Context-parallel ranks are GPUs too.
    if (worker.behaviour() == Behaviour::kNative) per /= static_cast<double>(layout.cp);
    return per;
  };
  row.seq_s_gpu = per_gpu(row.seq_s);
  switch (mode) {
    case StaticMode::kBoth:
      row.tokens_s = row.seq_s * static_cast<double>(osl);
      break;
    case StaticMode::kGeneration:
      row.tokens_s = row.seq_s * static_cast<double>(osl - 1);
      break;
    case StaticMode::kContext:
      row.tokens_s = row.seq_s;
      break;
  }
  row.tokens_s_gpu = per_gpu(row.tokens_s);
  row.tokens_s_user = row.tpot == 0 ? 0 : 1000 / row.tpot;

  const double total_ms = encoder_ms + context_ms + generation_ms;
  const double total_energy =
      encoder_energy + cost.context.energy_wms * c + cost.generation.energy_wms * c;
  row.power_w = total_ms > 0 ? total_energy / total_ms : 0;
  double powered = (cost.context.powered_ms + cost.generation.powered_ms) * c;
  for (const OpEntry& e : encoder.entries) {
    if (e.energy_wms > 0) powered += e.latency_ms * c;
  }
  row.power_coverage = total_ms > 0 ? std::clamp(powered / total_ms, 0.0, 1.0) : 0;

  MemoryQuery query;
  query.batch = batch;
  query.beam = workload.beam_width;
  query.isl = isl;
  query.osl = mode == StaticMode::kContext ? 1 : osl;
  query.prefix = workload.prefix;
  query.max_seq_len = options.max_seq_len;
  if (mode == StaticMode::kGeneration) {
    query.num_tokens = batch * workload.beam_width;
  } else {
    query.mtp_tokens = 0;
    query.encoder = EstimateEncoderMemory(worker.plan(), workload, batch);
    if (query.encoder) row.encoder_memory = query.encoder->total();
  }
  IC_ASSIGN(row.memory, EstimateMemory(worker.memory(), worker.system(), query));
  const double fraction = options.memory_fraction.value_or(
      DefaultStaticFraction(worker.backend(), worker.identity().version, worker.capacity_bytes(),
                            layout.tp, layout.pp, layout.dp));
  row.verdict =
      CheckMemory(row.memory, worker.capacity_bytes(), fraction, BackendMemoryOf(worker.backend()));
  return row;
}

}  // namespace infercast
