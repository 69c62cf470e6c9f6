// Context parallelism of a DeepSeek-V4 prefill: one rank runs the module on its share of the
// tokens; what does not divide evenly is corrected with stand-alone kernels, and keys are gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "operators/dsv4_sparse.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "tables/database.h"

namespace infercast {

class Dsv4ContextSplit {
 public:
  Dsv4ContextSplit(const Dsv4Context& op, const Database& db);
  ~Dsv4ContextSplit();

  // New tokens of one request that one rank runs the module on.
  std::uint32_t TokensPerRank(std::uint32_t s) const;

  // Milliseconds of the whole module, given `base` for TokensPerRank(s) tokens a request.
  // kPerfDatabase when the indexed kind has no kernel tables, or nothing to price the gathers with.
  Result<double> Latency(double base, std::uint32_t batch, std::uint32_t s,
                         std::uint32_t prefix) const;

 private:
  struct Gathers;

  // Scoring kernel over `tokens` new tokens, in launches of at most 8192. None: not measured.
  std::optional<double> Scoring(double tokens, double batch, double prefix) const;
  // Choosing kernel. None: not measured; an error beyond what was measured.
  Result<std::optional<double>> Choosing(double tokens, double batch, double prefix) const;

  std::uint32_t ranks_;
  bool indexed_;
  bool empty_gather_is_free_;
  std::uint32_t window_;  // 0: none
  std::uint32_t native_heads_;
  MeasuredSlice scoring_;
  std::shared_ptr<const KernelGrid> choosing_;
  std::unique_ptr<const Gathers> gathers_;
};

}  // namespace infercast
