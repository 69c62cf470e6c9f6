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
