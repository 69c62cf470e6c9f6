// The fused routed block of DeepSeek-V4 (exchange and experts in one kernel), measured as a whole
// over the tokens of one rank. It runs on GPUs of compute capability 10.0 up and is known by
// measurement only.
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "operators/measured_curve.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundDsv4MegaMoe {
 public:
  BoundDsv4MegaMoe(const Dsv4MegaMoe& op, const Database& db);
  // kModelConfig on older GPUs; kPerfDatabase for everything else that is not measured, in every
  // mode.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  std::shared_ptr<const TableStore> store_;
  MeasuredCurve curve_{Error{}};
  double scale_factor_;
};

template <>
struct BoundOf<Dsv4MegaMoe> {
  using type = BoundDsv4MegaMoe;
};

}  // namespace infercast
