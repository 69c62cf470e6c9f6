#include "serving/afd_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "serving/evaluate.h"

namespace infercast {

namespace {

constexpr std::int64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

AfdTraffic TrafficOf(const ModelPlan& plan) {
  return {plan.facts.hidden_size, plan.facts.is_moe ? plan.facts.num_experts : 0,
          plan.facts.is_moe ? plan.facts.topk : 0, plan.quant.comm};
}

// One pass over some operators of a list.
struct Pass {
  std::int64_t batch;  // requests, drafts included
  std::int64_t s;      // prefill: new tokens of a request; decode: KV length
  std::int64_t prefix;
  std::int64_t tokens;  // of token-major operators, the logits included
  double imbalance;
};

QueryContext QueryOf(const BoundOperator& op, const Pass& pass, bool context) {
  const auto u32 = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
  return context ? ContextQuery(op, u32(pass.batch), u32(pass.s), u32(pass.prefix), pass.imbalance,
                                u32(pass.tokens))
                 : GenerationQuery(u32(pass.batch), 1, u32(pass.s), pass.imbalance,
                                   u32(pass.prefix), u32(pass.tokens));
}

Result<double> SumOf(std::span<const BoundOperator> ops, std::span<const std::size_t> positions,
                     const Pass& pass, bool context) {
  double sum = 0;
  for (const std::size_t i : positions) {
    const Result<PerfResult> r = ops[i].Query(QueryOf(ops[i], pass, context));
    if (!r) return std::unexpected(r.error());
    sum += r->latency_ms;
  }
  return sum;
}

Result<Breakdown> PartsOf(std::span<const BoundOperator> ops,
                          std::span<const std::size_t> positions, const Pass& pass, bool context) {
  Breakdown out;
  for (const std::size_t i : positions) {
    const Result<PerfResult> r = ops[i].Query(QueryOf(ops[i], pass, context));
    if (!r) return std::unexpected(r.error());
    out.Add(ops[i].name(), *r);
  }
  return out;
}

void AddWeighted(Breakdown& total, Breakdown part, double weight) {
  part.Scale(weight);
  for (const OpEntry& e : part.entries) total.Add(e);
}

AfdPhaseTimes TimesOf(double attention, double ffn, const AfdTransfers& transfers) {
  AfdPhaseTimes t;
  t.attention = attention;
  t.ffn = ffn;
  t.to_ffn = transfers.to_ffn;
  t.to_attention = transfers.to_attention;
  t.transfers = transfers.to_ffn + transfers.to_attention;
  return t;
}

double BalanceOf(double a, double b) { return std::min(a, b) / std::max({a, b, 1e-9}); }

// The decode lengths that stand for the whole output: every stride's first, weighted by how many
// tokens it stands for.
struct DecodeSample {
  std::int64_t s;
  std::int64_t weight;
};
std::vector<DecodeSample> DecodeSamples(std::int64_t isl, std::int64_t osl) {
  std::vector<DecodeSample> samples;
  const std::int64_t steps = std::max<std::int64_t>(osl - 1, 1);
  for (std::int64_t i = 0; i < steps; i += kDecodeStride) {
    samples.push_back({isl + i + 1, std::min<std::int64_t>(kDecodeStride, steps - i)});
  }
  return samples;
}

}  // namespace

AfdDeployment::AfdDeployment(std::shared_ptr<const Worker> attention,
                             std::shared_ptr<const Worker> ffn, const AfdLayout& layout)
    : attention_(std::move(attention)),
      ffn_(std::move(ffn)),
      layout_(layout),
      communication_(attention_->engine().database(), layout, TrafficOf(attention_->plan())) {}

Result<std::shared_ptr<const AfdDeployment>> AfdDeployment::Create(
    std::shared_ptr<const Worker> attention, std::shared_ptr<const Worker> ffn,
    const AfdLayout& layout) {
  IC_RETURN_IF_ERROR(CheckAfdLayout(layout));
  if (attention->plan().nextn != ffn->plan().nextn) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("attention and FFN sides draft different numbers of tokens ({} and {})",
                            attention->plan().nextn, ffn->plan().nextn));
  }
  std::shared_ptr<AfdDeployment> out(
      new AfdDeployment(std::move(attention), std::move(ffn), layout));
  const bool boundary = layout.boundary_on_attention;
  const ModelPlan& a = out->attention_->plan();
  const ModelPlan& f = out->ffn_->plan();
  IC_ASSIGN(out->attention_context_, PartitionOperators(a.context_ops, boundary));
  IC_ASSIGN(out->attention_generation_, PartitionOperators(a.generation_ops, boundary));
  IC_ASSIGN(out->ffn_context_, PartitionOperators(f.context_ops, boundary));
  IC_ASSIGN(out->ffn_generation_, PartitionOperators(f.generation_ops, boundary));
  return out;
}

Status AfdDeployment::CheckSizes(const Workload& workload, const AfdSchedule& schedule) const {
  IC_RETURN_IF_ERROR(CheckAfdSchedule(schedule));
  IC_RETURN_IF_ERROR(CheckWorkload(workload, schedule.batch));
  const std::int64_t total = schedule.MicroBatch() * layout_.AttentionWorkers();
  const std::int64_t length =
      std::max<std::int64_t>(workload.isl + workload.osl, attention_->plan().nextn + 1);
  if (total > kU32Max / length) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} requests of {} tokens are too many for one step of the FFN side",
                            total, length));
  }
  return {};
}

Result<AfdPhaseTimes> AfdDeployment::Prefill(const Workload& workload,
                                             const AfdSchedule& schedule) const {
  const std::int64_t micro = schedule.MicroBatch();
  const std::int64_t total = micro * layout_.AttentionWorkers();
  const std::int64_t s = std::max<std::int64_t>(workload.isl - workload.prefix, 1);
  const double layers = static_cast<double>(attention_->plan().facts.num_layers);
  IC_ASSIGN(const AfdTransfers transfers, communication_.Price(micro * s));
  IC_ASSIGN(const double attention_sum,
            SumOf(attention_->engine().context_ops(), attention_context_.attention,
                  {micro, s, workload.prefix, micro * s, workload.context_imbalance}, true));
  IC_ASSIGN(const double ffn_sum,
            SumOf(ffn_->engine().context_ops(), ffn_context_.ffn,
                  {total, s, workload.prefix, total * s, workload.context_imbalance}, true));
  AfdPhaseTimes times =
      TimesOf(attention_sum / layers + transfers.combine,
              ffn_sum / layers + (transfers.all_gather + transfers.reduce_scatter), transfers);
  const AfdCycle cycle =
      CycleOf(schedule, times.attention, times.ffn, times.to_ffn, times.to_attention);
  times.step = layers * cycle.ms;
  times.transfers_hidden = cycle.transfers_hidden;
  times.balance_ratio = BalanceOf(times.attention, times.ffn);
  return times;
}

Result<AfdPhaseTimes> AfdDeployment::Decode(const Workload& workload,
                                            const AfdSchedule& schedule) const {
  const std::int64_t queries = attention_->plan().nextn + 1;
  const std::int64_t batch = schedule.MicroBatch() * queries;
  const std::int64_t total = batch * layout_.AttentionWorkers();
  const double layers = static_cast<double>(attention_->plan().facts.num_layers);
  const double repeats = std::max(static_cast<double>(schedule.micro_batches) * layers - 1, 0.0);
  IC_ASSIGN(const AfdTransfers transfers, communication_.Price(batch));
  AfdPhaseTimes mean;
  double weights = 0;
  for (const DecodeSample& sample : DecodeSamples(workload.isl, workload.osl)) {
    IC_ASSIGN(
        const double attention_sum,
        SumOf(attention_->engine().generation_ops(), attention_generation_.attention,
              {batch, sample.s, workload.prefix, batch, workload.generation_imbalance}, false));
    IC_ASSIGN(
        const double ffn_sum,
        SumOf(ffn_->engine().generation_ops(), ffn_generation_.ffn,
              {total, sample.s, workload.prefix, total, workload.generation_imbalance}, false));
    AfdPhaseTimes t =
        TimesOf(attention_sum / layers + transfers.combine,
                ffn_sum / layers + (transfers.all_gather + transfers.reduce_scatter), transfers);
    const AfdCycle cycle = CycleOf(schedule, t.attention, t.ffn, t.to_ffn, t.to_attention);
    const double w = static_cast<double>(sample.weight);
    mean.attention += w * t.attention;
    mean.ffn += w * t.ffn;
    mean.step += w * ((t.attention + t.ffn + t.to_ffn + t.to_attention) + cycle.ms * repeats);
    mean.transfers_hidden = cycle.transfers_hidden;
    weights += w;
  }
  const AfdPhaseTimes link = TimesOf(0, 0, transfers);
  mean.to_ffn = link.to_ffn;
  mean.to_attention = link.to_attention;
  mean.transfers = link.transfers;
  mean.attention /= weights;
  mean.ffn /= weights;
  mean.step /= weights;
  mean.balance_ratio = BalanceOf(mean.attention, mean.ffn);
  return mean;
}

Result<MemoryUsage> AfdDeployment::Memory(Side side, bool decode, std::int64_t batch,
                                          const Workload& workload, std::int64_t micro_batches,
                                          const AfdOptions& options) const {
  const bool is_attention = side == Side::kAttention;
  const Worker& worker = is_attention ? *attention_ : *ffn_;
  const ModelPlan& plan = worker.plan();
  MemoryModel model = worker.memory();
  const AfdPartition& partition = is_attention
                                      ? (decode ? attention_generation_ : attention_context_)
                                      : (decode ? ffn_generation_ : ffn_context_);
  model.context_weight_bytes = WeightBytesAt(decode ? plan.generation_ops : plan.context_ops,
                                             is_attention ? partition.attention : partition.ffn);
  MemoryQuery query;
  query.batch = batch;
  query.isl = workload.isl;
  query.osl = workload.osl;
  query.prefix = workload.prefix;
  if (decode) {
    query.num_tokens = batch;
    query.max_seq_len = options.max_seq_len.value_or(workload.isl + workload.osl);
  } else {
    query.mtp_tokens = 0;
    query.max_seq_len = options.max_seq_len.value_or(std::max<std::int64_t>(workload.isl, 1));
  }
  IC_ASSIGN(MemoryUsage usage, EstimateMemory(model, worker.system(), query));
  if (!is_attention) {
    usage.kvcache = 0;
  } else if (decode) {
    usage.kvcache *= static_cast<double>(std::max<std::int64_t>(micro_batches, 1));
  }
  usage.total = usage.weights + usage.activations + usage.kvcache + usage.nccl + usage.others;
  return usage;
}

Result<AfdRow> AfdDeployment::Evaluate(const Workload& workload, const AfdSchedule& schedule,
                                       AfdPhase phase, const AfdOptions& options) const {
  IC_RETURN_IF_ERROR(CheckSizes(workload, schedule));
  AfdRow row;
  row.attention_worker = &attention_->identity();
  row.ffn_worker = &ffn_->identity();
  row.phase = phase;
  row.layout = layout_;
  row.schedule = schedule;
  row.isl = workload.isl;
  row.osl = workload.osl;
  row.nextn = attention_->plan().nextn;
  row.total_batch = layout_.AttentionWorkers() * schedule.batch;
  row.micro_batch_total = layout_.AttentionWorkers() * schedule.MicroBatch();
  row.num_total_gpus = layout_.NumGpus();
  row.concurrency = static_cast<double>(row.total_batch);

  if (phase != AfdPhase::kDecode) {
    IC_ASSIGN(row.prefill, Prefill(workload, schedule));
    row.ttft = row.prefill->step;
  }
  if (phase != AfdPhase::kPrefill) {
    IC_ASSIGN(row.decode, Decode(workload, schedule));
    row.tpot = row.decode->step;
  }
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  FillAfdRates(row);

  const double fraction = options.memory_fraction.value_or(
      DefaultAggregateFraction(attention_->backend(), attention_->identity().version));
  for (const bool decode : {false, true}) {
    if (!(decode ? row.decode : row.prefill)) continue;
    IC_ASSIGN(const MemoryUsage a, Memory(Side::kAttention, decode, schedule.MicroBatch(), workload,
                                          schedule.micro_batches, options));
    IC_ASSIGN(const MemoryUsage f, Memory(Side::kFfn, decode, row.micro_batch_total, workload,
                                          schedule.micro_batches, options));
    const BackendMemory& backend = BackendMemoryOf(attention_->backend());
    const MemoryVerdict va = CheckMemory(a, attention_->capacity_bytes(), fraction, backend);
    const MemoryVerdict vf = CheckMemory(f, ffn_->capacity_bytes(), std::nullopt, backend);
    const auto keep = [](AfdSideMemory& kept, const MemoryUsage& usage, MemoryVerdict verdict) {
      if (usage.total > kept.usage.total) kept.usage = usage;
      kept.verdict.oom |= verdict.oom;
      kept.verdict.kv_oom |= verdict.kv_oom;
    };
    keep(row.attention_memory, a, va);
    keep(row.ffn_memory, f, vf);
  }
  row.memory = std::max(row.attention_memory.usage.total, row.ffn_memory.usage.total);
  if (attention_->behaviour() == Behaviour::kReference) RoundAsReported(row);
  return row;
}

Result<AfdBreakdown> AfdDeployment::Explain(const Workload& workload, const AfdSchedule& schedule,
                                            AfdPhase phase, const AfdOptions& options) const {
  IC_RETURN_IF_ERROR(CheckSizes(workload, schedule));
  const std::int64_t workers = layout_.AttentionWorkers();
  const std::int64_t micro = schedule.MicroBatch();
  AfdBreakdown out;
  for (const bool decode : {false, true}) {
    if (phase == (decode ? AfdPhase::kPrefill : AfdPhase::kDecode)) continue;
    AfdPhaseBreakdown& part = decode ? out.decode.emplace() : out.prefill.emplace();
    if (decode) {
      const std::int64_t batch = micro * (attention_->plan().nextn + 1);
      IC_ASSIGN(part.transfers, communication_.Price(batch));
      double weights = 0;
      for (const DecodeSample& sample : DecodeSamples(workload.isl, workload.osl)) {
        const double w = static_cast<double>(sample.weight);
        IC_ASSIGN(Breakdown a,
                  PartsOf(attention_->engine().generation_ops(), attention_generation_.attention,
                          {batch, sample.s, workload.prefix, batch, workload.generation_imbalance},
                          false));
        IC_ASSIGN(Breakdown f, PartsOf(ffn_->engine().generation_ops(), ffn_generation_.ffn,
                                       {batch * workers, sample.s, workload.prefix, batch * workers,
                                        workload.generation_imbalance},
                                       false));
        AddWeighted(part.attention, std::move(a), w);
        AddWeighted(part.ffn, std::move(f), w);
        weights += w;
      }
      part.attention.Divide(weights);
      part.ffn.Divide(weights);
    } else {
      const std::int64_t s = std::max<std::int64_t>(workload.isl - workload.prefix, 1);
      IC_ASSIGN(part.transfers, communication_.Price(micro * s));
      IC_ASSIGN(part.attention,
                PartsOf(attention_->engine().context_ops(), attention_context_.attention,
                        {micro, s, workload.prefix, micro * s, workload.context_imbalance}, true));
      IC_ASSIGN(part.ffn, PartsOf(ffn_->engine().context_ops(), ffn_context_.ffn,
                                  {micro * workers, s, workload.prefix, micro * workers * s,
                                   workload.context_imbalance},
                                  true));
    }
    IC_ASSIGN(part.attention_memory,
              Memory(Side::kAttention, decode, micro, workload, schedule.micro_batches, options));
    IC_ASSIGN(part.ffn_memory, Memory(Side::kFfn, decode, micro * workers, workload,
                                      schedule.micro_batches, options));
  }
  return out;
}

}  // namespace infercast
