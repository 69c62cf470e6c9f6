#include "serving/afd_row.h"

#include <algorithm>

#include "base/rounding.h"

namespace infercast {

void RoundAsReported(AfdRow& row) {
  const auto r3 = [](double& v) { v = RoundDecimal(v, 3); };
  const auto r2 = [](double& v) { v = RoundDecimal(v, 2); };
  for (std::optional<AfdPhaseTimes>* times : {&row.prefill, &row.decode}) {
    if (!*times) continue;
    AfdPhaseTimes& t = **times;
    for (double* v : {&t.attention, &t.ffn, &t.to_ffn, &t.to_attention, &t.transfers, &t.step,
                      &t.balance_ratio}) {
      r3(*v);
    }
  }
  for (double* v : {&row.ttft, &row.tpot, &row.request_latency, &row.seq_s, &row.request_rate}) {
    r3(*v);
  }
  for (double* v : {&row.tokens_s, &row.tokens_s_gpu, &row.tokens_s_user, &row.memory}) {
    r2(*v);
  }
}

namespace {

AfdLayerFigures LayerFigures(const AfdPhaseTimes* t) {
  if (t == nullptr) return {};
  return {.attention = t->attention,
          .feed_forward = t->ffn,
          .to_feed_forward = t->to_ffn,
          .to_attention = t->to_attention,
          .communication = t->transfers,
          .step = t->step,
          .balance = t->balance_ratio,
          .comm_hidden = t->transfers_hidden};
}

}  // namespace

AfdFigures FiguresOf(const AfdRow& row, bool round_memory) {
  const auto memory = [&](double gib) { return round_memory ? RoundDecimal(gib, 2) : gib; };
  const WorkerIdentity& worker = *row.attention_worker;
  AfdFigures f;
  f.model = worker.model;
  f.phase = ToString(row.phase);
  f.isl = row.isl;
  f.osl = row.osl;
  f.gpus_per_node = row.layout.gpus_per_node;
  f.a_nodes = row.layout.attention_nodes;
  f.a_tp = row.layout.attention_tp;
  f.a_bs = row.schedule.batch;
  f.a_micro_bs = row.schedule.MicroBatch();
  f.a_workers = row.layout.AttentionWorkers();
  f.a_memory = memory(row.attention_memory.usage.total);
  f.a_oom = !row.attention_memory.verdict.fits();
  f.f_nodes = row.layout.ffn_nodes;
  f.f_tp = row.layout.FfnGpus();
  f.f_ep = row.layout.expert_parallel;
  f.f_workers = row.layout.FfnGpus();
  f.f_memory = memory(row.ffn_memory.usage.total);
  f.f_oom = !row.ffn_memory.verdict.fits();
  f.headline = LayerFigures(row.HeadlineTimes());
  f.prefill_layer = LayerFigures(row.prefill ? &*row.prefill : nullptr);
  f.decode_layer = LayerFigures(row.decode ? &*row.decode : nullptr);
  f.ttft = row.ttft;
  f.tpot = row.tpot;
  f.request_latency = row.request_latency;
  f.b_total = static_cast<double>(row.total_batch);
  f.b_micro_total = static_cast<double>(row.micro_batch_total);
  f.tokens_s = row.tokens_s;
  f.tokens_s_gpu = row.tokens_s_gpu;
  f.tokens_s_user = row.tokens_s_user;
  f.seq_s = row.seq_s;
  f.request_rate = row.request_rate;
  f.concurrency = row.concurrency;
  f.parallel = row.layout.Text();
  f.pipeline_model = ToString(row.schedule.pipeline);
  f.num_microbatches = row.schedule.micro_batches;
  f.nextn = row.nextn;
  f.combined_with_pd = row.combined_with_static;
  f.boundary_on_attn = row.layout.boundary_on_attention;
  if (row.partner) {
    const AfdStaticPartner& p = *row.partner;
    const ParallelLayout& layout = p.worker->layout;
    f.partner = AfdPartner{.workers = p.workers,
                           .tp = layout.tp,
                           .pp = layout.pp,
                           .dp = layout.dp,
                           .moe_tp = layout.moe_tp.value_or(1),
                           .moe_ep = layout.moe_ep.value_or(1),
                           .bs = p.bs,
                           .num_gpus = p.gpus_per_worker,
                           .system = p.worker->system,
                           .backend = std::string(ToString(p.worker->backend)),
                           .version = p.worker->version};
    f.prefill_implementation = p.prefills ? "static_ctx" : "afd";
    f.decode_implementation = p.prefills ? "afd" : "static_gen";
  } else if (row.phase == AfdPhase::kBoth && !row.combined_with_static) {
    f.prefill_implementation = "afd";
    f.decode_implementation = "afd";
  }
  f.num_total_gpus = row.num_total_gpus;
  f.memory = row.memory;
  f.backend = ToString(worker.backend);
  f.version = worker.version;
  f.system = worker.system;
  return f;
}

void FillAfdRates(AfdRow& row) {
  row.tokens_s = row.tpot > 0 ? static_cast<double>(row.total_batch) / (row.tpot / 1000) : 0;
  row.tokens_s_gpu =
      row.num_total_gpus > 0 ? row.tokens_s / static_cast<double>(row.num_total_gpus) : 0;
  row.tokens_s_user = row.tpot > 0 ? 1000 / row.tpot : 0;
  row.seq_s = row.tokens_s / static_cast<double>(std::max<std::int64_t>(row.osl, 1));
  row.request_rate = row.seq_s;
}

void ProjectSpeculation(AfdRow& row, double accepted, bool round) {
  if (!(accepted > 0) || row.phase == AfdPhase::kPrefill) return;
  const double progress = 1 + accepted;
  row.tpot /= progress;
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  for (double* rate :
       {&row.request_rate, &row.seq_s, &row.tokens_s, &row.tokens_s_gpu, &row.tokens_s_user}) {
    *rate *= progress;
  }
  if (!round) return;
  for (double* v : {&row.tpot, &row.request_latency, &row.request_rate, &row.seq_s, &row.tokens_s,
                    &row.tokens_s_gpu, &row.tokens_s_user}) {
    *v = RoundTable(*v, 3);
  }
}

}  // namespace infercast
