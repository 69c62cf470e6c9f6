// Manifold-constrained hyper-connections: the mixing of several residual streams before and after a
// block. A measured curve over tokens per half, with the roofline of its matrix products.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Speed of light of one half or of both in one kernel.
struct HyperConnectionRoofline {
  enum class Part : std::uint8_t { kPre, kPost, kBoth, kUnknown };

  Part part{};
  std::uint32_t streams = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t sinkhorn_iterations = 0;
  double weight_bytes = 0;  // per element
  double flops = 1;         // operations/s
  double bandwidth = 1;     // bytes/s

  double Milliseconds(double tokens) const;  // tokens are rounded to whole ones
};

class BoundMhc {
 public:
  BoundMhc(const Mhc& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct Half {
    HyperConnectionRoofline roofline;
    MeasuredSlice curve;
    Calibration calibration;
  };
  static Half BindHalf(const Mhc& op, const Database& db, std::string_view name,
                       const HyperConnectionRoofline& roofline);

  DatabaseMode mode_;
  double scale_factor_;
  std::uint32_t seq_split_;
  std::optional<Error> missing_flops_;
  HyperConnectionRoofline whole_;
  std::vector<Half> halves_;  // one, or pre and post
};

template <>
struct BoundOf<Mhc> {
  using type = BoundMhc;
};

}  // namespace infercast
