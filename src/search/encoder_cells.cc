#include "search/encoder_cells.h"

#include <map>

namespace infercast {

namespace {

constexpr std::int64_t kMaxLanguageWorkers = 32;

}  // namespace

std::vector<EncoderCell> EncoderCells(double rate, std::int64_t gpus, const EncodeWorker& worker,
                                      double degradation, std::int64_t max_workers,
                                      const ReplicaRules& rules) {
  struct Best {
    double rate;
    EncoderCell cell;
  };
  std::map<std::int64_t, Best> by_gpus;
  const double each = worker.seq_s * degradation;
  for (std::int64_t a = 1; a <= kMaxLanguageWorkers; ++a) {
    ForEachEncoderCount({rate * static_cast<double>(a), gpus * a}, worker, each, max_workers, rules,
                        [&](std::int64_t e, std::int64_t total, double together) {
                          const auto [at, fresh] =
                              by_gpus.try_emplace(total, Best{together, {a, e}});
                          if (!fresh && together > at->second.rate) at->second = {together, {a, e}};
                        });
  }
  std::vector<EncoderCell> cells;
  std::vector<std::pair<std::int64_t, double>> kept;
  for (const auto& [total, best] : by_gpus) {
    if (!kept.empty() && best.rate <= kept.back().second) continue;
    const bool copies = std::any_of(kept.begin(), kept.end(), [&](const auto& smaller) {
      return total % smaller.first == 0 && best.rate <= static_cast<double>(total) /
                                                            static_cast<double>(smaller.first) *
                                                            smaller.second;
    });
    if (copies) continue;
    kept.emplace_back(total, best.rate);
    cells.push_back(best.cell);
  }
  return cells;
}

PoolCounts MatchPools(const StaticRow& prefill, const StaticRow& decode, const EncodeWorker& worker,
                      double degradation, std::int64_t max_workers, const PoolFactors& factors,
                      const ReplicaRules& rules) {
  PoolCounts best;
  double best_per_gpu = 0;
  const double each = worker.seq_s * degradation;
  std::optional<std::int64_t> largest = rules.max_gpus;
  if (!rules.allowed_gpus.empty()) largest = rules.allowed_gpus.back();
  for (std::int64_t y = 1; y <= rules.max_decode_workers; ++y) {
    for (std::int64_t x = 1; x <= rules.max_prefill_workers; ++x) {
      LanguageSide side;
      side.rate = std::min(prefill.seq_s * static_cast<double>(x) * factors.prefill_degradation,
                           decode.seq_s * static_cast<double>(y) * factors.decode_degradation);
      side.gpus = prefill.num_total_gpus * x + decode.num_total_gpus * y;
      const std::int64_t smallest = side.gpus + worker.tp;
      if (largest && smallest > *largest) break;
      // Even without a limit by the encoders this many GPUs would not be better.
      if (side.rate / static_cast<double>(smallest) <= best_per_gpu) continue;
      ForEachEncoderCount(side, worker, each, max_workers, rules,
                          [&](std::int64_t e, std::int64_t total, double rate) {
                            const double per_gpu = rate / static_cast<double>(total);
                            if (per_gpu > best_per_gpu) {
                              best_per_gpu = per_gpu;
                              best = {x, y, e};
                            }
                          });
    }
  }
  return best;
}

}  // namespace infercast
