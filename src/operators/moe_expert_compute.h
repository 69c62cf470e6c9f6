// Expert computation under large expert parallelism, measured per kernel, number format,
// distribution and number of expert slots, over the tokens of all attention ranks.
//
// On vLLM and TensorRT-LLM what is missing here is answered by the measurements of routed expert
// computation at the same expert ranks. There is no estimate of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "operators/measured_curve.h"
#include "operators/measured_slice.h"
#include "operators/moe.h"
#include "operators/moe_roofline.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundMoeExpertCompute {
 public:
  BoundMoeExpertCompute(const MoeExpertCompute& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Result<PerfResult> Measured(std::uint32_t tokens) const;

  DatabaseMode mode_;
  std::uint32_t attention_dp_;
  double scale_factor_;
  bool balanced_ = false;       // fewer tokens on the fullest rank
  std::optional<Error> error_;  // answered by every query
  MoeRoofline roofline_;
  MeasuredCurve curve_{Error{}};
  // What answers where the curve does not; bound when first needed.
  struct Substitute {
    Moe op;
    Database db;
    BuiltOnce<BoundMoe> bound;
  };
  std::optional<Substitute> substitute_;
  std::shared_ptr<const TableStore> store_;
};

template <>
struct BoundOf<MoeExpertCompute> {
  using type = BoundMoeExpertCompute;
};

}  // namespace infercast
