#include "serving/disaggregated.h"

#include <algorithm>

#include "base/rounding.h"

namespace infercast {

DisaggregatedRow ComposeDisaggregated(const StaticRow& prefill, const StaticRow& decode,
                                      std::int64_t prefill_workers, std::int64_t decode_workers,
                                      const PoolFactors& factors) {
  DisaggregatedRow row;
  row.prefill = prefill;
  row.decode = decode;
  row.prefill_workers = prefill_workers;
  row.decode_workers = decode_workers;
  row.isl = prefill.isl;
  row.osl = decode.osl;
  row.prefix = prefill.prefix;
  const double x = static_cast<double>(prefill_workers);
  const double y = static_cast<double>(decode_workers);
  row.seq_s = std::min(prefill.seq_s * x * factors.prefill_degradation,
                       decode.seq_s * y * factors.decode_degradation);
  row.num_total_gpus =
      prefill.num_total_gpus * prefill_workers + decode.num_total_gpus * decode_workers;
  const double gpus = static_cast<double>(row.num_total_gpus);
  row.tokens_s = row.seq_s * static_cast<double>(row.osl);
  row.seq_s_gpu = gpus > 0 ? row.seq_s / gpus : 0;
  row.tokens_s_gpu = gpus > 0 ? row.tokens_s / gpus : 0;
  row.ttft = prefill.ttft;
  row.tpot = decode.tpot;
  const double decode_ms = row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  row.request_latency = row.ttft + decode_ms;
  row.concurrency = decode.concurrency * y;
  row.request_rate = row.seq_s;
  row.tokens_s_user = decode.tokens_s_user;
  row.encoder_latency = prefill.encoder_latency;
  row.power_w =
      row.request_latency > 0
          ? (prefill.power_w * row.ttft + decode.power_w * decode_ms) / row.request_latency
          : 0;
  row.power_coverage =
      row.request_latency > 0
          ? (prefill.power_coverage * row.ttft + decode.power_coverage * decode_ms) /
                row.request_latency
          : 0;
  return row;
}

namespace {

double R3(double v) { return RoundTable(v, 3); }

void RoundCommon(WorkerRow& row) {
  for (double* v :
       {&row.concurrency, &row.request_rate, &row.ttft, &row.tpot, &row.seq_s, &row.seq_s_gpu,
        &row.tokens_s, &row.tokens_s_gpu, &row.tokens_s_user, &row.request_latency,
        &row.encoder_latency, &row.encoder_memory, &row.power_w, &row.memory.total}) {
    *v = R3(*v);
  }
}

}  // namespace

void RoundColumns(StaticRow& row) {
  RoundCommon(row);
  row.context_latency = R3(row.context_latency);
  row.generation_latency = R3(row.generation_latency);
}

void RoundColumns(AggregatedRow& row) {
  RoundCommon(row);
  for (double* v : {&row.balance_score, &row.num_ctx_reqs, &row.num_gen_reqs, &row.num_tokens}) {
    *v = R3(*v);
  }
}

void RoundColumns(DisaggregatedRow& row) {
  for (double* v : {&row.concurrency, &row.request_rate, &row.ttft, &row.tpot, &row.request_latency,
                    &row.encoder_latency, &row.seq_s, &row.seq_s_gpu, &row.tokens_s,
                    &row.tokens_s_gpu, &row.tokens_s_user, &row.power_w}) {
    *v = R3(*v);
  }
}

namespace {

// Shortens the decode part; the caller scales the rates.
void ShortenDecode(StaticRow& row, double progress) {
  row.tpot /= progress;
  row.generation_latency /= progress;
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
}

void ScaleRates(StaticRow& row, double ratio, double progress) {
  for (double* rate :
       {&row.request_rate, &row.seq_s, &row.seq_s_gpu, &row.tokens_s, &row.tokens_s_gpu}) {
    *rate *= ratio;
  }
  row.tokens_s_user *= progress;
}

}  // namespace

void ProjectSpeculation(StaticRow& row, double accepted, bool round) {
  if (!(accepted > 0)) return;
  const double progress = 1 + accepted;
  ShortenDecode(row, progress);
  ScaleRates(row, progress, progress);
  if (round) RoundColumns(row);
}

void ProjectStaticSpeculation(StaticRow& row, double accepted, bool round) {
  if (!(accepted > 0)) return;
  const double before = row.request_latency;
  const double progress = 1 + accepted;
  ShortenDecode(row, progress);
  ScaleRates(row, row.request_latency == 0 ? 1 : before / row.request_latency, progress);
  if (round) RoundColumns(row);
}

}  // namespace infercast
