#include "serving/loop_statistics.h"

#include <fmt/format.h>

#include <cmath>

namespace infercast {

Status CheckPolicy(const BatchPolicy& policy) {
  if (policy.token_budget < 1 || policy.poll_interval < 1 || policy.hold_steps < 0 ||
      policy.wait_steps < 0 || policy.max_requests < 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("token budget {}, polling interval {}, hold steps {}, wait steps {}, "
                            "most requests {}: the first two must be at least 1, the others at "
                            "least 0",
                            policy.token_budget, policy.poll_interval, policy.hold_steps,
                            policy.wait_steps, policy.max_requests));
  }
  if (!(policy.wait_budget_share >= 0 && std::isfinite(policy.wait_budget_share))) {
    return Fail(
        ErrorKind::kInvalidArgument,
        fmt::format("the share of its budget that a step waits for is {}: expected 0 or more",
                    policy.wait_budget_share));
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
    r.isl = static_cast<std::int32_t>(shapes[i].isl);
    r.osl = static_cast<std::int32_t>(shapes[i].osl);
    r.ticks = static_cast<std::int32_t>(std::ceil(static_cast<double>(r.osl - 1) / load.progress));
    r.reserve =
        kv.Bytes(r.isl + static_cast<std::int64_t>(kv_output_share * static_cast<double>(r.osl)));
  }
  return requests;
}

ServingForecast Sum(const std::vector<RequestTrace>& requests, const LoadSpec& load,
                    const ServingCorrections& corrections, const LoopStatistics& totals) {
  ServingForecast out;
  out.requests = RequestsOf(load);
  out.duration_ms = totals.duration;
  const double n = static_cast<double>(out.requests);
  // Where waves were left out, the last whole one before the end stands for them.
  const auto wave = static_cast<std::size_t>(load.concurrency);
  const bool whole = static_cast<std::int64_t>(requests.size()) == out.requests;
  const std::size_t last = whole ? 0 : requests.size() - wave, first = whole ? 0 : last - wave;
  const double more =
      whole ? 0 : (n - static_cast<double>(requests.size())) / static_cast<double>(wave);
  std::vector<double> ttft, tpot;
  ttft.reserve(requests.size());
  tpot.reserve(requests.size());
  struct {
    double tokens = 0, latency = 0, decoding = 0;
    FirstTokenParts parts;
  } sum;
  std::size_t tpot_first = 0, tpot_last = 0;
  const auto add = [&](std::size_t from, std::size_t to, double weight) {
    for (std::size_t i = from; i < to; ++i) {
      const RequestTrace& r = requests[i];
      sum.tokens += weight * static_cast<double>(r.osl);
      ttft.push_back(r.first - r.sent);
      sum.latency += weight * (r.ended - r.sent);
      // Not from the first token on: a KV cache may wait for room.
      if (r.ticks > 0) sum.decoding += weight * (r.ended - r.joined);
      sum.parts.front_end += weight * (r.received - r.sent);
      sum.parts.polling += weight * (r.seen - r.received);
      sum.parts.queue += weight * (r.started - r.seen);
      sum.parts.prefill += weight * (r.prefilled - r.started);
      sum.parts.transfer += weight * (r.first - r.prefilled);
      if (r.osl > 1) tpot.push_back((r.ended - r.first) / static_cast<double>(r.osl - 1));
    }
  };
  add(0, first, 1);
  double running_time = totals.running_time;
  if (!whole) {
    tpot_first = tpot.size();
    const double latency = sum.latency, decoding = sum.decoding;
    add(first, last, 1 + more);
    tpot_last = tpot.size();
    // With as many in flight all the time, a wave takes as long as one of its requests.
    const double share = more / (1 + more);
    out.duration_ms += share * (sum.latency - latency) / static_cast<double>(wave);
    running_time += share * (sum.decoding - decoding);
  }
  add(last, requests.size(), 1);
  out.parts = sum.parts;
  for (double* part : {&out.parts.front_end, &out.parts.polling, &out.parts.queue,
                       &out.parts.prefill, &out.parts.transfer}) {
    *part /= n;
  }
  out.tpot = whole ? Summarise(tpot) : Summarise(tpot, tpot_first, tpot_last, more);
  const double added = corrections.first_token_ms + corrections.first_token_steps * out.tpot.mean;
  for (double& t : ttft) t += added;
  out.parts.front_end += added;
  out.mean_latency_ms = sum.latency / n + added;
  out.ttft = whole ? Summarise(ttft) : Summarise(ttft, first, last, more);
  if (out.duration_ms > 0) {
    out.requests_per_s = n / out.duration_ms * 1000;
    out.output_tokens_per_s = sum.tokens / out.duration_ms * 1000;
    out.mean_running = running_time / out.duration_ms;
  }
  if (totals.steps > 0) {
    out.context_step_share =
        static_cast<double>(totals.context_steps) / static_cast<double>(totals.steps);
  }
  out.peak_kv_share = totals.peak_kv_share;
  return out;
}

}  // namespace infercast
