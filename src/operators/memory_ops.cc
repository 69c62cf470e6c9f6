#include "operators/memory_ops.h"

#include <algorithm>

#include "operators/token_split.h"

namespace infercast {

MemoryTraffic::MemoryTraffic(const Database& db)
    : sol_(db.IsSol()),
      bandwidth_(std::max(db.system().mem_bw, 1.0)),
      effective_bandwidth_(bandwidth_ *
                           std::max(db.system().mem_bw_empirical_scaling_factor, 1e-9)),
      constant_(db.system().mem_empirical_constant_latency) {}

BoundEmbedding::BoundEmbedding(const Embedding& op, const Database& db)
    : traffic_(db),
      hidden_(op.hidden_size),
      element_bytes_(Profile(op.quant_mode).memory),
      scale_(op.scale_factor),
      seq_split_(op.seq_split) {}

Result<PerfResult> BoundEmbedding::Query(const QueryContext& ctx) const {
  const double tokens = TokensOfRank(ctx.num_tokens, 1, seq_split_);
  PerfResult result = traffic_.Move(tokens * hidden_ * element_bytes_);
  result.Scale(scale_);
  return result;
}

BoundElementwise::BoundElementwise(const Elementwise& op, const Database& db)
    : traffic_(db),
      bytes_per_token_(op.bytes_per_token),
      scale_(op.scale_factor),
      scale_num_tokens_(op.scale_num_tokens),
      seq_split_(op.seq_split) {}

Result<PerfResult> BoundElementwise::Query(const QueryContext& ctx) const {
  const double tokens = TokensOfRank(ctx.num_tokens, scale_num_tokens_, seq_split_);
  PerfResult result = traffic_.Move(bytes_per_token_ * tokens);
  result.Scale(scale_);
  return result;
}

}  // namespace infercast
