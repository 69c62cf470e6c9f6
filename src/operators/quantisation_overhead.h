// What a dynamically quantised matrix product spends on quantising its input: finding the scale of
// the rows, and applying it. Both are measured over (tokens m, input width k) and clamped to the
// measured box: finding the scale costs the same beyond it, applying it grows with the data.
#pragma once

#include <memory>

#include "base/error.h"
#include "interpolation/kd_tree.h"
#include "operators/measured_slice.h"
#include "operators/perf_result.h"
#include "tables/database.h"

namespace infercast {

class QuantisationOverhead {
 public:
  enum class Part { kComputeScale, kScaleMatrix };

  QuantisationOverhead(const Database& db, Part part, double k);

  // kPerfDatabase when the table is missing, kEmpiricalNotImplemented when nothing can stand in.
  Result<PerfResult> Query(double m) const;

 private:
  struct Nearest;  // measured points for an estimate from the nearest of them

  double Sol(double m, double k) const { return passes_ * m * k / bandwidth_ * 1000.0; }
  Sought Measured(double m) const;
  Result<PerfResult> Estimated(double m) const;

  std::shared_ptr<const TableStore> store_;
  Part part_;
  DatabaseMode mode_;
  double k_;
  double passes_;  // bytes moved per element
  double bandwidth_;
  MeasuredSlice slice_;
  double low_m_ = 0, high_m_ = 0;  // measured box
  double clamped_k_ = 0;
  Calibration calibration_;
  BuiltOnce<Nearest> nearest_;
};

}  // namespace infercast
