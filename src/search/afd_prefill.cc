#include "search/afd_prefill.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "serving/afd_simulation.h"

namespace infercast {

namespace {

double FactorOr(const std::optional<double>& given, double standard) {
  return given && *given != 0 ? *given : standard;
}

}  // namespace

Result<AfdPrefillOptions> EvaluateAfdPrefill(std::span<const ParallelLayout> layouts,
                                             const WorkerSource& source, const Workload& workload,
                                             std::int64_t gpu_budget, const AfdChoice& choice,
                                             Behaviour behaviour) {
  std::vector<std::int64_t> batches = choice.prefill_batches;
  if (batches.empty()) batches = {1, 2, 4, 8, 16, 32};
  const auto limit =
      static_cast<std::size_t>(std::max<std::int64_t>(choice.prefill_max_candidates, 0));
  std::vector<std::pair<std::size_t, std::int64_t>> pairs;  // layout, batch
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::int64_t gpus = layouts[i].GpusPerWorker();
    if (gpus > gpu_budget || (choice.max_prefill_gpus && gpus > *choice.max_prefill_gpus)) continue;
    for (const std::int64_t b : batches) pairs.emplace_back(i, b);
  }
  if (pairs.size() > limit) {
    if (choice.prefill_candidate_overflow == CandidateOverflow::kError) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} prefill workers to try in front of AFD exceed the limit of {}: "
                              "raise afd_prefill_max_candidates, shorten the lists, or set "
                              "afd_prefill_candidate_overflow to truncate",
                              pairs.size(), limit));
    }
    pairs.resize(limit);
  }

  struct Part {
    std::shared_ptr<const Worker> worker;
    std::optional<StaticRow> row;
    SearchTally tally;
  };
  std::vector<Part> parts(pairs.size());
  tbb::parallel_for(std::size_t{0}, pairs.size(), [&](std::size_t i) {
    Part& part = parts[i];
    Result<std::shared_ptr<const Worker>> worker = source(layouts[pairs[i].first]);
    Result<StaticRow> row = worker ? EvaluateStatic(**worker, workload, pairs[i].second,
                                                    StaticMode::kContext, EvaluationOptions{})
                                   : std::unexpected(worker.error());
    if (!row) {
      if (IsMissingData(row.error().kind)) {
        ++part.tally.not_measured;
      } else {
        ++part.tally.failed_layouts;
        part.tally.failure = std::move(row.error());
      }
    } else if (row->verdict.oom || (behaviour == Behaviour::kNative && row->verdict.kv_oom)) {
      ++part.tally.oom;
    } else if (row->seq_s > 0 && row->ttft > 0) {
      ++part.tally.evaluated;
      part.worker = *std::move(worker);
      part.row = *std::move(row);
    }
  });
  AfdPrefillOptions out;
  for (Part& part : parts) {
    out.tally.Merge(part.tally);
    if (!part.row) continue;
    out.rows.push_back(*std::move(part.row));
    out.workers.push_back(std::move(part.worker));
  }
  if (out.rows.empty()) {
    return Fail(
        ErrorKind::kNoFeasibleConfig,
        pairs.empty()
            ? "no prefill worker to put in front of AFD is within the GPU limits"
            : fmt::format("none of {} prefill workers to put in front of AFD can be used: "
                          "{} do not fit in memory, {} are not measured, {} cannot be built",
                          pairs.size(), out.tally.oom, out.tally.not_measured,
                          out.tally.failed_layouts));
  }
  return out;
}

std::optional<AfdRow> CombineWithPrefill(const AfdRow& decode, std::span<const StaticRow> options,
                                         const AfdPrefillLimits& limits, const AfdChoice& choice,
                                         bool reference) {
  const double decode_rate = decode.seq_s * FactorOr(choice.decode_degradation, 0.95);
  const double prefill_factor = FactorOr(choice.prefill_degradation, 0.9);
  const double ttft_factor = FactorOr(choice.ttft_correction, 1.8);
  const double osl = static_cast<double>(decode.osl);
  const double decode_ms =
      decode.tpot * static_cast<double>(std::max<std::int64_t>(decode.osl - 1, 0));
  struct Best {
    const StaticRow* option;
    std::int64_t workers, gpus;
    double rate, ttft;
    std::tuple<double, std::int64_t, std::int64_t, double> key;
  };
  std::optional<Best> best;
  for (const StaticRow& option : options) {
    const double each = option.seq_s * prefill_factor;
    const double ttft = option.ttft * ttft_factor;
    if (ttft > limits.ttft || !(each > 0)) continue;
    if (limits.request_latency && ttft + decode_ms > *limits.request_latency) continue;
    const std::int64_t gpus = option.num_total_gpus;
    double most = std::max(1.0, std::ceil(decode_rate / each));
    const auto cap = [&](std::int64_t limit) { most = std::min(most, static_cast<double>(limit)); };
    if (choice.max_prefill_workers) cap(*choice.max_prefill_workers);
    if (choice.max_prefill_gpus) cap(*choice.max_prefill_gpus / gpus);
    cap(std::max<std::int64_t>(limits.gpu_budget - decode.num_total_gpus, 0) / gpus);
    for (std::int64_t w = 1; static_cast<double>(w) <= most; ++w) {
      const double rate = std::min(decode_rate, static_cast<double>(w) * each);
      const std::int64_t total = decode.num_total_gpus + w * gpus;
      const std::tuple key{rate * osl / static_cast<double>(total), -total, -w * gpus, -ttft};
      if (!best || key > best->key) best = Best{&option, w, total, rate, ttft, key};
    }
  }
  if (!best) return std::nullopt;

  AfdRow row = decode;
  row.ttft = best->ttft;
  row.request_latency = best->ttft + decode_ms;
  row.seq_s = best->rate;
  row.request_rate = best->rate;
  row.num_total_gpus = best->gpus;
  row.tokens_s = best->rate * osl;
  row.tokens_s_gpu = row.tokens_s / static_cast<double>(best->gpus);
  row.memory = std::max(row.memory, best->option->memory.total);
  row.combined_with_static = true;
  row.partner = AfdStaticPartner{.worker = best->option->worker,
                                 .prefills = true,
                                 .workers = best->workers,
                                 .bs = best->option->bs,
                                 .gpus_per_worker = best->option->num_total_gpus};
  if (reference) RoundAsReported(row);
  return row;
}

Misses MissesWithPrefill(const AfdRow& decode, std::span<const StaticRow> options,
                         const AfdPrefillLimits& limits, const AfdChoice& choice) {
  const double decode_ms =
      decode.tpot * static_cast<double>(std::max<std::int64_t>(decode.osl - 1, 0));
  std::optional<Misses> least;
  for (const StaticRow& option : options) {
    const double ttft = option.ttft * FactorOr(choice.ttft_correction, 1.8);
    Misses misses;
    misses.Check("ttft", ttft, limits.ttft);
    if (limits.request_latency) {
      misses.Check("request latency", ttft + decode_ms, *limits.request_latency);
    }
    misses.Check("GPUs", static_cast<double>(decode.num_total_gpus + option.num_total_gpus),
                 static_cast<double>(limits.gpu_budget), "");
    if (!least || misses.distance() < least->distance()) least = misses;
  }
  return least.value_or(Misses());
}

}  // namespace infercast
