// A vision encoder as one operator: projections, attention and two small kernels per layer. Costs
// nothing without image tokens.
#pragma once

#include <memory>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundVision {
 public:
  BoundVision(const Vision& op, const Database& db);

  // Latency only; labelled silicon whatever its parts are. Errors of the parts.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct Layer;
  std::shared_ptr<const Layer> layer_;
  double num_layers_;
  double scale_factor_;
};

template <>
struct BoundOf<Vision> {
  using type = BoundVision;
};

}  // namespace infercast
