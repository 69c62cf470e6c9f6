// Block-sparse attention blocks (MSA): the indexer scores blocks of cached tokens, attention sees
// the best blocks. Where a block was not measured, the utilisation of a DSA block of the same
// shape, which works the same way, stands for it.
#pragma once

#include <memory>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Answers carry no energy and no decomposition, and are not clamped.
class BoundMsaContext {
 public:
  BoundMsaContext(const MsaContext& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

class BoundMsaGeneration {
 public:
  BoundMsaGeneration(const MsaGeneration& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

template <>
struct BoundOf<MsaContext> {
  using type = BoundMsaContext;
};
template <>
struct BoundOf<MsaGeneration> {
  using type = BoundMsaGeneration;
};

}  // namespace infercast
