// Routed expert computation, measured as a whole for a shape, a number format and a distribution of
// tokens over experts, as a curve over the tokens of all attention ranks.
//
// A second table holds a kernel for few tokens (at most 128, nvfp4, gated), asked first where it
// has the shape.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "operators/measured_curve.h"
#include "operators/moe_estimate.h"
#include "operators/moe_roofline.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundMoe {
 public:
  BoundMoe(const Moe& op, const Database& db);
  // kMissingSystemFlops before anything else; kPerfDatabase for a shape that was not measured;
  // kEmpiricalNotImplemented where nothing can stand in for it.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Result<PerfResult> Measured(std::uint32_t tokens) const;
  Result<PerfResult> Estimated(std::uint32_t tokens) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Result<double> flops_;
  MoeRoofline roofline_;
  std::uint32_t attention_dp_;
  bool balanced_prefill_ = false;   // fewer tokens on the fullest rank; measured answers only
  std::optional<Error> refused_;    // a configuration without measurements on purpose
  bool few_tokens_kernel_ = false;  // the number format and gating have one
  std::optional<Error> few_tokens_unreadable_;
  MeasuredCurve few_tokens_{Error{}};
  MeasuredCurve curve_{Error{}};
  std::optional<MoeEstimate> few_tokens_estimate_;
  std::optional<MoeEstimate> estimate_;
  double scale_factor_;
};

template <>
struct BoundOf<Moe> {
  using type = BoundMoe;
};

}  // namespace infercast
