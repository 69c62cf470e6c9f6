// TensorRT-LLM's own all-to-all over NVLink, as the classic dispatch path asks for it: a measured
// curve over tokens, a link roofline, and the estimate that ties them.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "operators/measured_curve.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "tables/database.h"

namespace infercast {

class TrtllmAllToAll {
 public:
  // Dispatch (before the experts) or combine (after them) of `op`.
  TrtllmAllToAll(const MoeDispatch& op, const Database& db);
  // Not clamped, not scaled.
  Result<PerfResult> Query(std::uint32_t tokens) const;

 private:
  struct Link {
    double copies = 0;  // ranks that get a token
    double hidden = 0;
    double bytes_per_element = 0;
    double bandwidth = 0;  // bytes/s
    double Time(double tokens) const {
      return tokens * copies * hidden * bytes_per_element / bandwidth * 1000.0;
    }
  };

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Link link_;
  MeasuredCurve curve_{Error{}};
  Calibration calibration_;
};

}  // namespace infercast
