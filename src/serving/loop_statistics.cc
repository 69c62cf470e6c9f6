#include "serving/loop_statistics.h"

#include <fmt/format.h>

#include <cmath>

namespace infercast {

Status CheckPolicy(const BatchPolicy& policy) {
  if (policy.token_budget < 1 || policy.poll_interval < 1 || policy.hold_steps < 0 ||
      policy.wait_steps < 0 || policy.max_requests < 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("token budget {}, polling interval {}, hold {}, most requests {}: the "
                            "first two must be at least 1, the others at least 0",
                            policy.token_budget, policy.poll_interval, policy.hold_steps,
                            policy.max_requests));
  }
  if (!(policy.kv_output_share >= 0 && policy.memory_fraction > 0)) {
    return Fail(ErrorKind::kInvalidArgument,
                "KV output share and memory fraction must be positive");
  }
  return {};
}

std::vector<RequestTrace> MakeTraces(const LoadSpec& load, const KvLayout& kv,
                                     double kv_output_share) {
  const std::vector<RequestShape> shapes = DrawShapes(load);
  std::vector<RequestTrace> requests(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    RequestTrace& r = requests[i];
    r.isl = shapes[i].isl;
    r.osl = shapes[i].osl;
    r.ticks = static_cast<std::int64_t>(std::ceil(static_cast<double>(r.osl - 1) / load.progress));
    r.reserve =
        kv.Bytes(r.isl + static_cast<std::int64_t>(kv_output_share * static_cast<double>(r.osl)));
  }
  return requests;
}

ServingForecast Sum(const std::vector<RequestTrace>& requests,
                    const ServingCorrections& corrections, const LoopStatistics& totals) {
  ServingForecast out;
  out.requests = static_cast<std::int64_t>(requests.size());
  out.duration_ms = totals.duration;
  std::vector<double> ttft, tpot;
  ttft.reserve(requests.size());
  tpot.reserve(requests.size());
  std::int64_t tokens = 0;
  for (const RequestTrace& r : requests) {
    tokens += r.osl;
    ttft.push_back(r.first - r.sent);
    out.mean_latency_ms += r.ended - r.sent;
    out.parts.front_end += r.received - r.sent;
    out.parts.polling += r.seen - r.received;
    out.parts.queue += r.started - r.seen;
    out.parts.prefill += r.prefilled - r.started;
    out.parts.transfer += r.first - r.prefilled;
    if (r.osl > 1) tpot.push_back((r.ended - r.first) / static_cast<double>(r.osl - 1));
  }
  const double n = static_cast<double>(requests.size());
  for (double* part : {&out.parts.front_end, &out.parts.polling, &out.parts.queue,
                       &out.parts.prefill, &out.parts.transfer}) {
    *part /= n;
  }
  out.tpot = Summarise(tpot);
  const double added = corrections.first_token_ms + corrections.first_token_steps * out.tpot.mean;
  for (double& t : ttft) t += added;
  out.parts.front_end += added;
  out.mean_latency_ms = out.mean_latency_ms / n + added;
  out.ttft = Summarise(ttft);
  if (totals.duration > 0) {
    out.requests_per_s = n / totals.duration * 1000;
    out.output_tokens_per_s = static_cast<double>(tokens) / totals.duration * 1000;
    out.mean_running = totals.running_time / totals.duration;
  }
  if (totals.steps > 0) {
    out.context_step_share =
        static_cast<double>(totals.context_steps) / static_cast<double>(totals.steps);
  }
  out.peak_kv_share = totals.peak_kv_share;
  return out;
}

}  // namespace infercast
