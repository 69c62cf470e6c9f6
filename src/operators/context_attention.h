// Prefill attention over grouped-query heads, measured without cached tokens over (heads, sequence,
// batch). A query with p cached tokens looks the full sequence up and takes the share of its
// quadratic work that is left; the kernels around it (norms, rotary embedding, KV write) are priced
// as memory traffic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "operators/estimate_ladder.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Speed of light of prefill attention.
struct ContextAttentionRoofline {
  double head_size = 0;
  double window = 0;     // 0: all tokens
  double kv_bytes = 0;   // per element of the cache
  double flops = 0;      // operations/s of the attention format
  double bandwidth = 0;  // bytes/s

  struct Bounds {
    double math_ms, mem_ms;
  };
  // b requests of s new and p cached tokens, `heads` query and `kv_heads` KV heads.
  Bounds At(double b, double s, double p, double heads, double kv_heads) const;
  double Time(double b, double s, double p, double heads, double kv_heads) const;
};

class BoundContextAttention {
 public:
  BoundContextAttention(const ContextAttention& op, const Database& db);

  // kMissingSystemFlops before anything else; kPerfDatabase for a slice that was not measured;
  // kEmpiricalNotImplemented where nothing can stand in.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  // Attention alone of `s` new tokens behind `p` others.
  Result<PerfResult> Chunk(double b, double s, double p) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Result<double> flops_;
  ContextAttentionRoofline roofline_;
  double heads_;
  double kv_heads_;        // of the query, 0 taken at its word
  double slice_kv_heads_;  // of the measured slice; 0: as many as query heads
  std::uint32_t cp_size_;
  double scale_factor_;
  PerfResult around_;  // the kernels around attention; they do not depend on the query
  MeasuredSlice slice_;
  EstimateLadder estimate_;
};

template <>
struct BoundOf<ContextAttention> {
  using type = BoundContextAttention;
};

}  // namespace infercast
