// Stand-in for operator kinds whose model is not there yet: every query is a typed error.
#pragma once

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "tables/database.h"

namespace infercast {

template <typename Wire>
class BoundUnbuilt {
 public:
  BoundUnbuilt(const Wire&, const Database&) {}
  Result<PerfResult> Query(const QueryContext&) const {
    return Fail(ErrorKind::kInternal, "this operator kind is not built yet");
  }
};

// The bound form of a wire struct. Each family header specialises it; see bound_operator.h.
template <typename Wire>
struct BoundOf {
  using type = BoundUnbuilt<Wire>;
};

}  // namespace infercast
