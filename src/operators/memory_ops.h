// Operators that only move bytes: a measured share of the memory bandwidth plus a constant per
// kernel launch. They read no table and never fail.
#pragma once

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Time of moving a number of bytes. Not clamped; energy 0. Speed-of-light modes: bytes over
// bandwidth, source sol; every other mode: the system's measured efficiency, source empirical.
class MemoryTraffic {
 public:
  explicit MemoryTraffic(const Database& db);

  PerfResult Move(double bytes) const {
    if (sol_) return PerfResult::Sol(0.0, bytes / bandwidth_ * 1000.0);
    return PerfResult::Of((bytes / effective_bandwidth_ + constant_) * 1000.0, 0,
                          Source::kEmpirical, OriginKind::kAnalytic);
  }

 private:
  bool sol_;
  double bandwidth_;            // bytes/s
  double effective_bandwidth_;  // bytes/s
  double constant_;             // seconds
};

class BoundEmbedding {
 public:
  BoundEmbedding(const Embedding& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  MemoryTraffic traffic_;
  double hidden_;
  double element_bytes_;
  double scale_;
  std::uint32_t seq_split_;
};

class BoundElementwise {
 public:
  BoundElementwise(const Elementwise& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  MemoryTraffic traffic_;
  double bytes_per_token_;
  double scale_;
  std::uint32_t scale_num_tokens_;
  std::uint32_t seq_split_;
};

template <>
struct BoundOf<Embedding> {
  using type = BoundEmbedding;
};
template <>
struct BoundOf<Elementwise> {
  using type = BoundElementwise;
};

}  // namespace infercast
