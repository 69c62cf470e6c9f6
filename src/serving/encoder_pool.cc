#include "serving/encoder_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rounding.h"
#include "engine/op_lists.h"
#include "memory/memory_usage.h"
#include "models/blocks/vision_encoder.h"
#include "serving/encoder.h"

namespace infercast {

namespace {

// What happened to the batches of one width.
struct Tried {
  std::vector<EncodeWorker> workers;
  bool out_of_memory = false;
};

Result<Tried> TryWidth(const EncodeRequest& request, std::int64_t tp,
                       const std::set<std::int64_t>& batches, const Database& database,
                       const Workload& workload) {
  Tried tried;
  const SystemSpec& system = database.system();
  const auto reserve = system.nccl_mem.find(static_cast<int>(std::min<std::int64_t>(tp, 8)));
  if (reserve == system.nccl_mem.end() || !system.other_mem || !system.mem_capacity) return tried;
  ModelPlan plan;
  plan.vision = *request.vision;
  plan.vision->data_parallel = false;
  plan.layout.tp = tp;
  Result<std::vector<Operator>> ops = BuildVisionEncoder(*plan.vision, tp, false);
  if (!ops) return tried;  // this width does not shard it
  plan.encoder_ops = *std::move(ops);
  const std::vector<BoundOperator> bound = BindOps(plan.encoder_ops, database);
  const double overhead = (static_cast<double>(reserve->second) +
                           static_cast<double>(*system.other_mem) *
                               (1 + BackendMemoryOf(request.backend).runtime_overhead)) /
                          kGiB;
  const double capacity = static_cast<double>(*system.mem_capacity) / kGiB;
  const bool reference = database.behaviour() == Behaviour::kReference;
  double best = 0;
  for (const std::int64_t b : batches) {
    IC_ASSIGN(const Breakdown cost, EncodeImages(bound, *plan.vision, workload, b, tp));
    const double raw = cost.TotalLatency();
    const double latency = raw * request.latency_correction;
    const std::optional<EncoderMemory> memory = EstimateEncoderMemory(plan, workload, b);
    const double gib = memory ? memory->total() : 0;
    if (gib + overhead >= capacity) {
      tried.out_of_memory = true;
      break;
    }
    if (!std::isfinite(latency) || latency <= 0) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("encoding {} requests takes {} ms, which is no time", b, latency));
    }
    const double rate = static_cast<double>(b) * 1000 / latency;
    if (rate <= best) continue;
    best = rate;
    double powered = 0;
    for (const OpEntry& e : cost.entries) {
      if (e.energy_wms > 0) powered += e.latency_ms;
    }
    tried.workers.push_back({.tp = tp,
                             .bs = b,
                             .latency = reference ? RoundDecimal(latency, 3) : latency,
                             .seq_s = rate,
                             .memory = reference ? RoundDecimal(gib, 3) : gib,
                             .power_w = cost.TotalEnergy() / raw,
                             .power_coverage = std::clamp(powered / raw, 0.0, 1.0)});
  }
  return tried;
}

double Blend(double share, double stage_value, double rest_value, double rest) {
  const double total = share + rest;
  return total > 0 ? (stage_value * share + rest_value) / total : 0;
}

// The latency and rate of the stage; `prefill_power` and `decode_power` are those of the workers
// behind it.
template <typename Row>
void Add(const EncodeStage& stage, double prefill_power, double decode_power, double& coverage,
         Row& row) {
  const double share = stage.worker.latency * stage.queueing;
  const double decode_ms = row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  row.power_w = Blend(share, stage.worker.power_w,
                      prefill_power * row.ttft + decode_power * decode_ms, row.ttft + decode_ms);
  coverage = Blend(share, stage.worker.power_coverage, coverage * (row.ttft + decode_ms),
                   row.ttft + decode_ms);
  row.encoder_latency = stage.worker.latency;
  row.ttft += share;
  row.request_latency += share;
  const double cap = stage.Rate();
  if (cap > 0 && cap < row.seq_s) {
    row.tokens_s *= cap / row.seq_s;
    row.seq_s = cap;
    row.request_rate = cap;
  }
  row.num_total_gpus += stage.worker.tp * stage.workers;
  const double gpus = static_cast<double>(row.num_total_gpus);
  row.seq_s_gpu = gpus > 0 ? row.seq_s / gpus : 0;
  row.tokens_s_gpu = gpus > 0 ? row.tokens_s / gpus : 0;
}

}  // namespace

Result<std::vector<EncodeWorker>> EvaluateEncodeWorkers(const EncodeRequest& request,
                                                        const Database& database,
                                                        const Workload& workload) {
  if (!TokensPerImage(*request.vision, workload)) {
    return Fail(ErrorKind::kInvalidArgument,
                "encode workers need images: give the image height and width (or the tokens of an "
                "image) and the number of images per request");
  }
  const std::set<std::int64_t> widths(request.tp.begin(), request.tp.end());
  const std::set<std::int64_t> batches(request.batch.begin(), request.batch.end());
  for (const std::int64_t tp : widths) {
    if (tp < 1) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("encoder tensor parallelism is {}: expected at least 1", tp));
    }
  }
  for (const std::int64_t b : batches) {
    if (b < 1 || b > kMaxEncoderBatch) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("encoder batch size is {}: expected 1 to {}", b, kMaxEncoderBatch));
    }
  }
  std::vector<EncodeWorker> workers;
  bool out_of_memory = false;
  for (const std::int64_t tp : widths) {
    IC_ASSIGN(const Tried tried, TryWidth(request, tp, batches, database, workload));
    workers.insert(workers.end(), tried.workers.begin(), tried.workers.end());
    out_of_memory = out_of_memory || tried.out_of_memory;
  }
  if (!workers.empty()) return workers;
  if (out_of_memory) {
    return Fail(ErrorKind::kDoesNotFit,
                fmt::format("the vision encoder does not fit a GPU of {}", database.system().name));
  }
  return Fail(ErrorKind::kNoFeasibleConfig,
              fmt::format("no encode worker can be built on {} at the given widths",
                          database.system().name));
}

void MultiplyWorkers(std::int64_t copies, AggregatedRow& row) {
  const double factor = static_cast<double>(copies);
  for (double* v : {&row.seq_s, &row.tokens_s, &row.request_rate, &row.concurrency}) *v *= factor;
  row.num_total_gpus *= copies;
}

void AddEncodeStage(const EncodeStage& stage, AggregatedRow& row) {
  Add(stage, row.power_w, row.power_w, row.power_coverage, row);
}

void AddEncodeStage(const EncodeStage& stage, DisaggregatedRow& row) {
  Add(stage, row.prefill.power_w, row.decode.power_w, row.power_coverage, row);
}

}  // namespace infercast
