// One phase of the token exchange under large expert parallelism, measured per library, topology
// and payload format, over SM budget and tokens.
//
// A multi-node topology that was not measured may be answered by the same library's single-node
// measurement; such an answer is labelled and carries a record of what stood in for what. There is
// no roofline and no estimate for these kernels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "operators/measured_curve.h"
#include "operators/measured_slice.h"
#include "operators/moe_comm_backends.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Checks the names an operator carries. kInvalidEngineConfig: unknown library, unknown phase, or a
// phase that the library does not have.
Status ValidateMoeAllToAll(const MoeAllToAll& op);

// The payload format under which (library, phase) was measured that answers for `wanted`: itself,
// fp8 for blocked fp8, or the only one measured if that is the unnamed `default`.
std::optional<std::string> ResolveCommDtype(const Table& table, std::string_view comm_backend,
                                            std::string_view phase, std::string_view wanted);

class BoundMoeAllToAll {
 public:
  BoundMoeAllToAll(const MoeAllToAll& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  // Both directions of a round trip, and their sum where both were measured at the same points.
  struct RoundTrip {
    MeasuredSlice other;
    MeasuredSlice sum;
  };
  Status Bind(const MoeAllToAll& op, const Database& db);
  Result<PerfResult> LookUp(double tokens) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  std::uint32_t attention_tp_;
  double sms_;
  double scale_factor_;
  std::optional<Error> error_;          // answered by every query
  std::optional<MeasuredCurve> curve_;  // over tokens, at the requested SM budget
  std::optional<MeasuredSlice> grid_;   // over (SM budget, tokens)
  std::optional<RoundTrip> round_trip_;
  std::shared_ptr<const CommFallback> record_;  // set when another topology answers
};

template <>
struct BoundOf<MoeAllToAll> {
  using type = BoundMoeAllToAll;
};

}  // namespace infercast
