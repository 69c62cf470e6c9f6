// Measured latencies of the sparse-attention sub-kernels that see the whole sequence whatever a
// rank's share is: the indexer's scores (MQA logits) and its choice of tokens (top-k).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tables/database.h"

namespace infercast::latent {

class SparseKernels {
 public:
  SparseKernels(const Database& db, std::string_view architecture, std::uint32_t num_heads);

  // kPerfDatabase when scores or choice were not measured for the architecture and head count.
  Status RequireIndexer() const;

  // What a rank spends more (or less) on scores and choice than a lone request of its share of the
  // tokens, ms: `s` new tokens of which it owns `share`, `p` cached ones. Kernels that were not
  // measured count 0. kPerfDatabase beyond the longest measured length: the kernels grow faster
  // than linearly, so the longest one would not do.
  Result<double> IndexerCorrection(std::uint32_t b, std::uint32_t s, std::uint32_t share,
                                   std::uint32_t p, std::uint32_t cp_size) const;

 private:
  // Axes batch, new tokens, cached tokens.
  using Grid = std::optional<GridView>;

  // Latency at the nearest measured batch and length; linear between measured cached tokens, held
  // at their ends. 0 where there is no grid.
  static Result<double> At(const Grid& grid, std::uint32_t b, std::uint32_t s, std::uint32_t p);

  Grid scores_;                      // MQA logits
  Grid choice_last_;                 // top-k as the last of several ranks sees it
  Grid choice_flat_;                 // top-k over a rank's own tokens
  std::optional<Error> unreadable_;  // a file that exists and cannot be used
  std::string missing_;
};

}  // namespace infercast::latent
