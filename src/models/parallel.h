// How one worker is spread over GPUs, and which spreads are possible.
//
// A worker has tp * pp * dp * cp GPUs. Attention is sharded by tensor (tp), data (dp) and context
// (cp) parallelism; the experts of an MoE model share the same tp * dp * cp GPUs, split by tensor
// (moe_tp) and expert (moe_ep) parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace infercast {

struct ParallelLayout {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;  // attention data parallelism
  std::int64_t cp = 1;
  // Absent: follows from the other one and the attention width.
  std::optional<std::int64_t> moe_tp = std::nullopt;
  std::optional<std::int64_t> moe_ep = std::nullopt;

  std::int64_t GpusPerWorker() const { return tp * pp * dp * cp; }
  std::int64_t AttentionWidth() const { return tp * dp * cp; }

  bool operator==(const ParallelLayout&) const = default;
};

// Every size is at least 1 and small enough to multiply. kInvalidArgument names the size.
Status CheckSizes(const ParallelLayout& layout);

// Fills the missing one of moe_tp and moe_ep of an MoE model; afterwards moe_tp * moe_ep is the
// attention width. kInvalidArgument when both are absent or no such width exists.
Status ResolveExpertWidth(ParallelLayout& layout);

// Text such as "tp4 pp1 dp2 moe_tp1 moe_ep8" for messages.
std::string Describe(const ParallelLayout& layout);

}  // namespace infercast
