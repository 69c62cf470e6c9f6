// Decode attention over the KV cache, measured over (heads, batch, sequence). A step's sequence is
// the middle of a batch whose lengths differ: the answer is the mean of five lengths within ten
// per cent of it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "operators/estimate_ladder.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Speed of light of decode attention.
struct GenerationAttentionRoofline {
  double head_size = 0;
  double window = 0;     // 0: all tokens
  double kv_bytes = 0;   // per element of the cache
  double flops = 0;      // operations/s
  double bandwidth = 0;  // bytes/s

  struct Bounds {
    double math_ms, mem_ms;
  };
  // b requests, the s-th token of each looking at the s - 1 before it.
  Bounds At(double b, double s, double heads, double kv_heads) const;
  double Time(double b, double s, double heads, double kv_heads) const;
};

class BoundGenerationAttention {
 public:
  BoundGenerationAttention(const GenerationAttention& op, const Database& db);

  // Errors as BoundContextAttention.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Sought Measured(double b, std::uint32_t s) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Result<double> flops_;
  GenerationAttentionRoofline roofline_;
  double heads_;
  double kv_heads_;        // of the query
  double slice_kv_heads_;  // of the measured slice; 0: as many as query heads
  double scale_factor_;
  MeasuredSlice slice_;
  EstimateLadder estimate_;
};

template <>
struct BoundOf<GenerationAttention> {
  using type = BoundGenerationAttention;
};

}  // namespace infercast
