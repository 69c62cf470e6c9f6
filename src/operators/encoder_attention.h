// Bidirectional attention of a vision encoder, measured over (heads, sequence, batch); its rotary
// embedding is priced as memory traffic.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "operators/measured_slice.h"
#include "operators/memory_ops.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundEncoderAttention {
 public:
  BoundEncoderAttention(const EncoderAttention& op, const Database& db);

  // Errors as BoundContextAttention.
  Result<PerfResult> Query(const QueryContext& ctx) const;
  // `b` sequences of `s` tokens, clamped but not scaled.
  Result<PerfResult> QueryShape(std::uint32_t b, std::uint32_t s) const;

 private:
  struct Roofline {
    double head_size, flops, bandwidth;
    double Math(double b, double s, double heads) const;
    double Memory(double b, double s, double heads) const;
    double Time(double b, double s, double heads) const;
  };

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Result<double> flops_;
  Roofline roofline_{};
  std::uint64_t query_elements_;  // heads times head size
  double heads_;
  double rotary_factor_;
  double scale_factor_;
  MemoryTraffic traffic_;
  MeasuredSlice slice_;
  Calibration calibration_;
};

template <>
struct BoundOf<EncoderAttention> {
  using type = BoundEncoderAttention;
};

}  // namespace infercast
