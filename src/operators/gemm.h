// Matrix products: measured curves over the token count m, one per weight shape (n, k); a shape
// that was not measured borrows the utilisation of the nearest measured ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "interpolation/sites.h"
#include "operators/estimate_ladder.h"
#include "operators/gemm_roofline.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/quantisation_overhead.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundGemm {
 public:
  BoundGemm(const Gemm& op, const Database& db);

  // kMissingSystemFlops before anything else; kPerfDatabase for a format that was not measured or
  // a shape out of reach; kEmpiricalNotImplemented where nothing can stand in.
  Result<PerfResult> Query(const QueryContext& ctx) const;
  // The same at m tokens, clamped but not scaled.
  Result<PerfResult> QueryTokens(double m) const;

 private:
  Result<PerfResult> Base(double m) const;
  Result<PerfResult> WithoutQuantisation(double m) const;
  Sought Measured(double m) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  Result<double> flops_;
  GemmRoofline roofline_;  // of the operator's own format
  double n_;
  double k_;
  double scale_factor_;
  std::uint32_t scale_num_tokens_;
  std::uint32_t seq_split_;

  GemmRoofline lookup_roofline_;  // of the format whose measurements are read
  MeasuredSlice slice_;           // the format's rows; tells misses
  std::shared_ptr<const SiteIndex> sites_;
  SiteIndex::Plan plan_;
  bool below_grid_sol_ = false;  // a miss is answered by the speed of light
  EstimateLadder estimate_;
  // Statically quantised inputs: what the measured kernel spends on quantising them, to take off.
  bool static_quantisation_ = false;
  std::optional<QuantisationOverhead> compute_scale_;
  std::optional<QuantisationOverhead> scale_matrix_;
};

template <>
struct BoundOf<Gemm> {
  using type = BoundGemm;
};

}  // namespace infercast
