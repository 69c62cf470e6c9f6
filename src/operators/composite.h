// Operators made of operators: two groups that run side by side, and a choice that depends on what
// was measured.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundOperator;

// Two groups at the same time: the longer one counts, the energy of both. The first error of
// group a, then of group b, is the answer.
class BoundOverlap {
 public:
  BoundOverlap(const Overlap& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

  const std::vector<BoundOperator>& group_a() const { return *group_a_; }
  const std::vector<BoundOperator>& group_b() const { return *group_b_; }

 private:
  std::shared_ptr<const std::vector<BoundOperator>> group_a_;
  std::shared_ptr<const std::vector<BoundOperator>> group_b_;
};

// The primary where it was measured, else the sum of a list. In a hybrid database an estimate of
// the primary does not count as measured. Errors other than missing data are the answer. A primary
// that knows from its binding that it was never measured is not asked.
class BoundFallback {
 public:
  BoundFallback(const Fallback& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

  const BoundOperator& primary() const { return *primary_; }
  const std::vector<BoundOperator>& fallback() const { return *fallback_; }

 private:
  std::shared_ptr<const BoundOperator> primary_;
  bool never_primary_;
  std::shared_ptr<const std::vector<BoundOperator>> fallback_;
};

template <>
struct BoundOf<Overlap> {
  using type = BoundOverlap;
};
template <>
struct BoundOf<Fallback> {
  using type = BoundFallback;
};

}  // namespace infercast
