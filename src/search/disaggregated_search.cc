#include "search/disaggregated_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "search/order.h"
#include "search/pool_rows.h"

namespace infercast {

namespace {

constexpr std::size_t kPrefillChoices = 32;
constexpr std::size_t kDecodeChoicesPerLayout = 16;

}  // namespace

WorkerMatch MatchWorkers(const StaticRow& prefill, const StaticRow& decode,
                         const PoolFactors& factors, const ReplicaRules& rules) {
  WorkerMatch best;
  double best_per_gpu = 0;
  const std::int64_t gpus_p = prefill.num_total_gpus;
  const std::int64_t gpus_d = decode.num_total_gpus;
  const auto offer = [&](std::int64_t x, std::int64_t y) {
    const double p = prefill.seq_s * static_cast<double>(x) * factors.prefill_degradation;
    const double d = decode.seq_s * static_cast<double>(y) * factors.decode_degradation;
    const double rate = std::min(p, d);
    const double per_gpu = rate / static_cast<double>(gpus_p * x + gpus_d * y);
    if (per_gpu > best_per_gpu) {
      best_per_gpu = per_gpu;
      best = {x, y, rate};
    }
  };
  for (std::int64_t y = 1; y <= rules.max_decode_workers; ++y) {
    if (!rules.allowed_gpus.empty()) {
      // One prefill count per allowed size.
      for (const std::int64_t size : rules.allowed_gpus) {
        const std::int64_t left = size - gpus_d * y;
        if (left < gpus_p || left % gpus_p != 0) continue;
        const std::int64_t x = left / gpus_p;
        if (x <= rules.max_prefill_workers) offer(x, y);
      }
      continue;
    }
    // Any size: the best count sits where the prefill pool overtakes the decode pool, or at the
    // limit below that.
    std::int64_t most = rules.max_prefill_workers;
    if (rules.max_gpus) most = std::min(most, (*rules.max_gpus - gpus_d * y) / gpus_p);
    if (most < 1) continue;
    const double p1 = prefill.seq_s * factors.prefill_degradation;
    const double d = decode.seq_s * static_cast<double>(y) * factors.decode_degradation;
    const std::int64_t turn = p1 > 0 ? static_cast<std::int64_t>(std::min(d / p1, 1e9)) : most;
    const std::int64_t from = std::clamp<std::int64_t>(turn - 1, 1, most);
    const std::int64_t to = std::min(most, turn + 2);
    for (std::int64_t x = from; x <= std::max(from, to); ++x) offer(x, y);
  }
  return best;
}

BothPools EvaluatePools(std::span<const ParallelLayout> prefill_layouts,
                        const WorkerSource& prefill_source,
                        std::span<const ParallelLayout> decode_layouts,
                        const WorkerSource& decode_source, const Workload& workload,
                        const DisaggregatedSearchOptions& options, Behaviour behaviour) {
  std::vector<std::int64_t> prefill_batches;
  for (std::int64_t b = 1; b <= std::max<std::int64_t>(options.prefill_max_batch, 1); ++b) {
    prefill_batches.push_back(b);
  }
  EvaluationOptions evaluation;
  evaluation.memory_fraction = options.memory_fraction;
  evaluation.max_seq_len = options.max_seq_len;
  evaluation.latency_correction = options.prefill_latency_correction;
  BothPools pools;
  pools.prefill = EvaluatePool(prefill_layouts, prefill_source, workload, StaticMode::kContext,
                               prefill_batches, evaluation, 0, behaviour);
  evaluation.latency_correction = options.decode_latency_correction;
  pools.decode = EvaluatePool(decode_layouts, decode_source, workload, StaticMode::kGeneration,
                              DecodeBatches(options.decode_max_batch), evaluation,
                              options.speculation.accepted, behaviour);
  return pools;
}

DisaggregatedSearchResult SearchDisaggregated(
    std::span<const ParallelLayout> prefill_layouts, const WorkerSource& prefill_source,
    std::span<const ParallelLayout> decode_layouts, const WorkerSource& decode_source,
    const Workload& workload, std::span<const LatencyTarget> targets,
    const DisaggregatedSearchOptions& options, Behaviour behaviour) {
  DisaggregatedSearchResult result;
  auto [prefill, decode] = EvaluatePools(prefill_layouts, prefill_source, decode_layouts,
                                         decode_source, workload, options, behaviour);
  result.prefill_tally = prefill.tally;
  result.decode_tally = decode.tally;
  for (const PoolRows* pool : {&prefill, &decode}) {
    result.workers.insert(result.workers.end(), pool->workers.begin(), pool->workers.end());
  }
  if (prefill.rows.empty()) {
    result.error = NothingFound(prefill.tally, "prefill workers", behaviour);
    return result;
  }
  if (decode.rows.empty()) {
    result.error = NothingFound(decode.tally, "decode workers", behaviour);
    return result;
  }
  for (StaticRow& row : prefill.rows) row.ttft *= options.factors.ttft_queueing;
  result.fastest_ttft = std::ranges::min_element(prefill.rows, {}, &StaticRow::ttft)->ttft;
  result.fastest_tpot = std::ranges::min_element(decode.rows, {}, &StaticRow::tpot)->tpot;

  // Prefill rows by rate per GPU, smaller batches first among equals.
  std::vector<std::uint32_t> by_rate(prefill.rows.size());
  for (std::uint32_t i = 0; i < by_rate.size(); ++i) by_rate[i] = i;
  std::stable_sort(by_rate.begin(), by_rate.end(), [&](std::uint32_t a, std::uint32_t b) {
    const StaticRow& p = prefill.rows[a];
    const StaticRow& q = prefill.rows[b];
    if (p.seq_s_gpu != q.seq_s_gpu) return p.seq_s_gpu > q.seq_s_gpu;
    return p.global_bs < q.global_bs;
  });
  // Decode rows by layout, in ascending order of its text.
  std::map<std::string, std::vector<std::uint32_t>> groups;
  for (std::uint32_t i = 0; i < decode.rows.size(); ++i) {
    groups[decode.rows[i].worker->parallel].push_back(i);
  }

  std::vector<WorkerMatch> matches(prefill.rows.size() * decode.rows.size());
  std::vector<std::uint8_t> matched(matches.size(), 0);
  const auto match = [&](std::uint32_t p, std::uint32_t d) -> const WorkerMatch& {
    const std::size_t at = p * decode.rows.size() + d;
    if (matched[at] == 0) {
      matched[at] = 1;
      const StaticRow& prow = prefill.rows[p];
      const StaticRow& drow = decode.rows[d];
      if (!options.compatible || options.compatible(prow.worker->layout, drow.worker->layout)) {
        matches[at] = MatchWorkers(prow, drow, options.factors, options.replica);
      }
    }
    return matches[at];
  };

  const bool reference = behaviour == Behaviour::kReference;

  struct Chosen {
    std::uint32_t prefill, decode;
    bool operator<(const Chosen& o) const {
      return std::pair(prefill, decode) < std::pair(o.prefill, o.decode);
    }
  };
  // Per token, then to the first one.
  const auto faster = [&](const Chosen& a, const Chosen& b) {
    const double x = decode.rows[a.decode].tpot;
    const double y = decode.rows[b.decode].tpot;
    if (x != y) return x < y;
    return prefill.rows[a.prefill].ttft < prefill.rows[b.prefill].ttft;
  };
  std::map<Chosen, bool> taken;
  for (const LatencyTarget& target : targets) {
    std::vector<std::uint32_t> prefills;
    for (const std::uint32_t i : by_rate) {
      if (PoolMeets(prefill.rows[i].ttft, target.ttft, behaviour)) prefills.push_back(i);
      if (prefills.size() == kPrefillChoices) break;
    }
    if (prefills.empty()) continue;
    std::vector<DisaggregatedRow> best_of_groups;
    std::vector<Chosen> chosen;
    for (const auto& [parallel, members] : groups) {
      std::vector<std::uint32_t> decodes;
      for (const std::uint32_t i : members) {
        if (decode.rows[i].tpot > 0 && PoolMeets(decode.rows[i].tpot, target.tpot, behaviour)) {
          decodes.push_back(i);
        }
      }
      Descending(decodes, behaviour, [&](std::uint32_t i) { return decode.rows[i].seq_s_gpu; });
      if (decodes.size() > kDecodeChoicesPerLayout) decodes.resize(kDecodeChoicesPerLayout);
      std::optional<Chosen> best;
      double best_value = 0;
      std::int64_t best_gpus = 0;
      for (const std::uint32_t d : decodes) {
        for (const std::uint32_t p : prefills) {
          const WorkerMatch& m = match(p, d);
          if (m.prefill == 0) continue;
          const std::int64_t gpus =
              prefill.rows[p].num_total_gpus * m.prefill + decode.rows[d].num_total_gpus * m.decode;
          const double value =
              m.rate * static_cast<double>(decode.rows[d].osl) / static_cast<double>(gpus);
          const bool better = !best || value > best_value ||
                              (value == best_value && gpus < best_gpus) ||
                              (!reference && value == best_value && gpus == best_gpus &&
                               faster(Chosen{p, d}, *best));
          if (better) {
            best = Chosen{p, d};
            best_value = value;
            best_gpus = gpus;
          }
        }
      }
      if (!best) continue;
      const WorkerMatch& m = match(best->prefill, best->decode);
      DisaggregatedRow row =
          ComposeDisaggregated(prefill.rows[best->prefill], decode.rows[best->decode], m.prefill,
                               m.decode, options.factors);
      if (reference) RoundColumns(row);
      best_of_groups.push_back(row);
      chosen.push_back(*best);
    }
    std::vector<std::uint32_t> order(best_of_groups.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    Descending(order, behaviour, [&](std::uint32_t i) { return best_of_groups[i].tokens_s_gpu; });
    if (order.size() > options.rows_per_target) order.resize(options.rows_per_target);
    for (const std::uint32_t i : order) {
      if (taken.emplace(chosen[i], true).second) result.rows.push_back(best_of_groups[i]);
    }
  }
  SortByValue(result.rows, behaviour);
  return result;
}

}  // namespace infercast
