// Sparse attention blocks with an indexer (DSA): prefill, with or without context parallelism, and
// decode. A model may run the indexer in a share of its layers only (full_frac); the others reuse
// its choice and are measured apart.
//
// The measured grids have a true axis of cached tokens, so no correction is applied for them.
#pragma once

#include <memory>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundDsaContext {
 public:
  BoundDsaContext(const DsaContext& op, const Database& db);
  // With cp_size > 1 the answer is labelled estimated, carries no energy and no decomposition
  // (kInvalidEngineConfig where one is asked for), and needs the measured side tables in every
  // mode.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

class BoundDsaGeneration {
 public:
  BoundDsaGeneration(const DsaGeneration& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

template <>
struct BoundOf<DsaContext> {
  using type = BoundDsaContext;
};
template <>
struct BoundOf<DsaGeneration> {
  using type = BoundDsaGeneration;
};

}  // namespace infercast
