// Latent attention measured as a whole block: projections, absorbing products and kernel together.
// Tables of several models share a file; a block is chosen by the model's own (unsharded) number of
// heads.
#pragma once

#include "base/error.h"
#include "operators/mla.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundMlaModuleContext {
 public:
  BoundMlaModuleContext(const MlaModuleContext& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;
  bool never_measured() const { return prefill_.never_measured(); }

 private:
  latent::Prefill prefill_;
  double scale_factor_;
};

class BoundMlaModuleGeneration {
 public:
  BoundMlaModuleGeneration(const MlaModuleGeneration& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;
  bool never_measured() const { return decode_.never_measured(); }

 private:
  latent::Decode decode_;
  double scale_factor_;
};

template <>
struct BoundOf<MlaModuleContext> {
  using type = BoundMlaModuleContext;
};
template <>
struct BoundOf<MlaModuleGeneration> {
  using type = BoundMlaModuleGeneration;
};

}  // namespace infercast
