// The figures of one replica as a benchmark run in virtual time has them: what a deployment is
// ranked by. Times are means over the requests; rates are those of requests of full length.
#pragma once

#include <algorithm>
#include <cstdint>

namespace infercast {

struct ReplicaScore {
  double ttft = 0, ttft_p99 = 0;  // ms, as a client sees it
  double tpot = 0, tpot_p99 = 0;  // ms
  double request_latency = 0;     // ms, of a request of full length: ttft + (osl - 1) * tpot
  double tokens_s = 0;            // generated tokens per second, of all GPUs of the replica
  double tokens_s_gpu = 0;
  double tokens_s_user = 0;  // 1000 / tpot
  double seq_s = 0;          // requests of full length per second: tokens_s / osl
};

// From a run's figures; `gpus` of the replica.
template <typename Forecast>
ReplicaScore ScoreOf(const Forecast& run, std::int64_t osl, std::int64_t gpus) {
  ReplicaScore s;
  s.ttft = run.ttft.mean;
  s.ttft_p99 = run.ttft.p99;
  s.tpot = run.tpot.mean;
  s.tpot_p99 = run.tpot.p99;
  s.request_latency = s.ttft + s.tpot * static_cast<double>(osl - 1);
  s.tokens_s = run.output_tokens_per_s;
  s.tokens_s_gpu = s.tokens_s / static_cast<double>(std::max<std::int64_t>(gpus, 1));
  s.tokens_s_user = s.tpot > 0 ? 1000 / s.tpot : 0;
  s.seq_s = s.tokens_s / static_cast<double>(osl);
  return s;
}

}  // namespace infercast
