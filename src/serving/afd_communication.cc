#include "serving/afd_communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ordinals.h"

namespace infercast {

namespace {

std::int64_t CeilOf(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(
      CeilDiv(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

Result<double> Collective(const LibraryCollective& collective, double elements) {
  Result<PerfResult> result = collective.Query(elements);
  if (!result) return std::unexpected(result.error());
  result->Clamp();
  return result->latency_ms;
}

}  // namespace

double SendProbability(std::int64_t nodes, std::int64_t num_experts, std::int64_t topk) {
  const double even = 1.0 / static_cast<double>(std::max<std::int64_t>(nodes, 1));
  if (num_experts <= 0 || topk <= 0 || nodes <= 1) return even;
  const std::int64_t per_node = num_experts / nodes;
  if (per_node <= 0) return even;
  const std::int64_t elsewhere = num_experts - per_node;
  if (topk > elsewhere) return 1;
  // Choosing all k experts elsewhere: C(elsewhere, k) / C(experts, k), as a product of ratios.
  long double none = 1;
  for (std::int64_t i = 0; i < topk; ++i) {
    none *= static_cast<long double>(elsewhere - i) / static_cast<long double>(num_experts - i);
  }
  return 1 - static_cast<double>(none);
}

AfdCommunication::AfdCommunication(const Database& db, const AfdLayout& layout,
                                   const AfdTraffic& traffic)
    : db_(db),
      layout_(layout),
      traffic_(traffic),
      element_bytes_(traffic.format == CommQuant::kHalf ? 2 : 1),
      local_gpus_(std::min(layout.FfnGpus(), layout.gpus_per_node)),
      memory_(db) {
  const std::int64_t nodes =
      std::max<std::int64_t>(CeilOf(layout.FfnGpus(), layout.gpus_per_node), 1);
  send_probability_ = SendProbability(nodes, traffic.num_experts, traffic.topk);
  if (local_gpus_ > 1) {
    const auto gpus = static_cast<std::uint32_t>(local_gpus_);
    all_gather_.emplace(db_, traffic.format, "all_gather", gpus);
    reduce_scatter_.emplace(db_, traffic.format, "reduce_scatter", gpus);
  }
}

Result<double> AfdCommunication::Transfer(double bytes) const {
  if (bytes <= 0) return 0.0;
  const double halves = std::ceil(bytes / 2);
  if (halves > std::numeric_limits<std::uint32_t>::max()) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} bytes are too many for one transfer between attention and FFN "
                            "nodes; lower the batch size or the input length",
                            bytes));
  }
  P2P link;
  link.scale_factor = 1;
  link.pp_size = 2;
  link.hidden_size = static_cast<std::uint32_t>(halves);
  QueryContext query;
  query.num_tokens = 1;
  const Result<PerfResult> result = BoundP2P(link, db_).Query(query);
  if (!result) return std::unexpected(result.error());
  return result->latency_ms * layout_.comm_overhead;
}

Result<AfdTransfers> AfdCommunication::Price(std::int64_t tokens) const {
  AfdTransfers out;
  if (tokens <= 0) return out;
  const double t = static_cast<double>(tokens);
  const double hidden = static_cast<double>(traffic_.hidden_size);
  IC_ASSIGN(out.to_ffn, Transfer(std::trunc(send_probability_ * t * hidden * element_bytes_)));
  out.to_attention = out.to_ffn;
  if (all_gather_) {
    const double elements =
        std::trunc(send_probability_ * (t * static_cast<double>(layout_.AttentionWorkers())) *
                   hidden / static_cast<double>(local_gpus_));
    IC_ASSIGN(out.all_gather, Collective(*all_gather_, elements));
    IC_ASSIGN(out.reduce_scatter, Collective(*reduce_scatter_, elements));
  }
  if (layout_.expert_parallel > 1) {
    // One partial sum from each expert-parallel rank is read, the sum is written.
    const double bytes = std::trunc(static_cast<double>(layout_.expert_parallel + 1) *
                                    static_cast<double>(CeilOf(tokens, layout_.attention_tp)) *
                                    hidden * element_bytes_);
    out.combine = memory_.Move(std::ceil(bytes / 2) * 2).latency_ms;
  }
  return out;
}

}  // namespace infercast
