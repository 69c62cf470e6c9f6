#include "search/afd_capacity.h"

#include <algorithm>

namespace infercast {

namespace {

constexpr std::int64_t kSmallSample = 128;
constexpr std::int64_t kLargeSample = 256;
constexpr std::int64_t kUnlimited = 10000;
constexpr std::int64_t kSmallestLimit = 32;

// Largest batch of a micro-batch on one side.
std::int64_t Largest(const AfdDeployment& deployment, AfdDeployment::Side side,
                     const Workload& workload, std::int64_t micro_batches,
                     const AfdOptions& options) {
  const Result<MemoryUsage> small =
      deployment.Memory(side, true, kSmallSample, workload, micro_batches, options);
  const Result<MemoryUsage> large =
      deployment.Memory(side, true, kLargeSample, workload, micro_batches, options);
  if (!small || !large) return 0;
  const bool attention = side == AfdDeployment::Side::kAttention;
  const Worker& worker = attention ? deployment.attention() : deployment.ffn();
  const double capacity = static_cast<double>(worker.capacity_bytes()) / kGiB;
  const double samples = static_cast<double>(kLargeSample - kSmallSample);
  const double marginal = (large->total - small->total) / samples;
  const double fixed = small->total - static_cast<double>(kSmallSample) * marginal;
  std::int64_t n = kUnlimited;
  if (marginal > 0) n = static_cast<std::int64_t>((capacity - fixed) / marginal);
  if (attention && options.memory_fraction) {
    const BackendMemory& backend = BackendMemoryOf(worker.backend());
    const double fraction =
        *options.memory_fraction * (1 - backend.reserved_fraction) * (1 - backend.tolerance);
    const double kv = (large->kvcache - small->kvcache) / samples;
    const double per_request = kv + fraction * (marginal - kv);
    if (per_request > 0) {
      n = std::min(n, static_cast<std::int64_t>(fraction * (capacity - fixed) / per_request));
    }
  }
  return std::max<std::int64_t>(n, 0);
}

}  // namespace

AfdCapacity CapacityOf(const AfdDeployment& deployment, const Workload& workload,
                       std::int64_t micro_batches, std::int64_t max_batch,
                       const AfdOptions& options) {
  AfdCapacity capacity;
  const std::int64_t attention =
      Largest(deployment, AfdDeployment::Side::kAttention, workload, micro_batches, options);
  capacity.attention_batch = attention * micro_batches;
  capacity.attention_limit =
      std::max(std::min(capacity.attention_batch / 8 * 8, max_batch / 8 * 8), kSmallestLimit);
  const std::int64_t ffn =
      Largest(deployment, AfdDeployment::Side::kFfn, workload, micro_batches, options);
  capacity.ffn_batch = ffn / deployment.layout().AttentionWorkers() * micro_batches;
  return capacity;
}

}  // namespace infercast
