// How many language workers to put behind how many encode workers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "search/disaggregated_search.h"
#include "serving/encoder_pool.h"

namespace infercast {

// Encode workers of one pool, at most.
inline constexpr std::int64_t kMaxEncodeWorkers = 32;

// What the language workers ahead of the choice make together.
struct LanguageSide {
  double rate = 0;  // requests per second
  std::int64_t gpus = 0;
};

// Calls visit(encode workers, GPUs of the whole replica, its rate) for every size that is allowed,
// in order of the sizes. `each`: requests per second of one encode worker, losses deducted.
template <typename Visit>
void ForEachEncoderCount(const LanguageSide& side, const EncodeWorker& worker, double each,
                         std::int64_t max_workers, const ReplicaRules& rules, Visit&& visit) {
  const auto offer = [&](std::int64_t e) {
    const double cap = each * static_cast<double>(e);
    visit(e, side.gpus + worker.tp * e, side.rate < cap ? side.rate : cap);
  };
  if (!rules.allowed_gpus.empty()) {
    for (const std::int64_t size : rules.allowed_gpus) {
      const std::int64_t left = size - side.gpus;
      if (left <= 0 || left % worker.tp != 0) continue;
      if (left / worker.tp <= max_workers) offer(left / worker.tp);
    }
    return;
  }
  // Any size: more encoders than the language workers can use are never better.
  std::int64_t most = max_workers;
  if (rules.max_gpus) {
    most = std::min(most, (*rules.max_gpus - side.gpus) / worker.tp);
  } else if (each > 0) {
    most = std::min(most, static_cast<std::int64_t>(std::min(std::ceil(side.rate / each), 1e9)));
  }
  for (std::int64_t e = 1; e <= most; ++e) offer(e);
}

// One size of an aggregated replica behind encode workers.
struct EncoderCell {
  std::int64_t language_workers = 0;
  std::int64_t encode_workers = 0;
};
// Sizes worth having, by ascending GPUs: each has a higher rate than all smaller ones, and than
// copies of a smaller one. `rate` and `gpus` are those of one language worker.
std::vector<EncoderCell> EncoderCells(double rate, std::int64_t gpus, const EncodeWorker& worker,
                                      double degradation, std::int64_t max_workers,
                                      const ReplicaRules& rules);

// Workers of all three pools of a disaggregated replica with the best rate per GPU; zeros when no
// allowed size exists.
struct PoolCounts {
  std::int64_t prefill = 0, decode = 0, encode = 0;
};
PoolCounts MatchPools(const StaticRow& prefill, const StaticRow& decode, const EncodeWorker& worker,
                      double degradation, std::int64_t max_workers, const PoolFactors& factors,
                      const ReplicaRules& rules);

}  // namespace infercast
