// One measured curve over a token count or message size as an operator uses it: a point, between
// points, or beyond them at the utilisation of the end point.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "interpolation/resolved.h"
#include "operators/perf_result.h"
#include "tables/table.h"

namespace infercast {

class MeasuredCurve {
 public:
  enum class BelowSingle { kHold, kRefuse };  // a query below a curve of one point

  // A curve that is not there: every look-up answers `error`.
  explicit MeasuredCurve(Error error) : error_(std::move(error)) {}
  // `view` must have one axis and at least one point. `name` tells the curve in messages.
  MeasuredCurve(const GridView& view, std::string name, BelowSingle below_single);

  bool present() const { return view_.has_value(); }

  // The measured answer, labelled silicon. kPerfDatabase when the curve is missing or has nothing
  // to anchor the query.
  Result<PerfResult> Measured(double at, SolFunction sol) const;

 private:
  std::optional<GridView> view_;
  Error error_;
  std::string name_;
  BelowSingle below_single_ = BelowSingle::kHold;
};

}  // namespace infercast
