#include "operators/composite.h"

#include <algorithm>
#include <utility>

#include "operators/bound_operator.h"

namespace infercast {

namespace {

std::shared_ptr<const std::vector<BoundOperator>> BindAll(const std::vector<Operator>& ops,
                                                          const Database& db) {
  auto bound = std::make_shared<std::vector<BoundOperator>>();
  bound->reserve(ops.size());
  for (const Operator& op : ops) bound->push_back(BoundOperator::Bind(op, db));
  return bound;
}

Result<PerfResult> Sum(const std::vector<BoundOperator>& ops, const QueryContext& ctx) {
  PerfResult total = PerfResult::Zero();
  for (const BoundOperator& op : ops) {
    const Result<PerfResult> part = op.Query(ctx);
    if (!part) return part;
    total.Add(*part);
  }
  return total;
}

// Whether an operator knows that no query of it finds a measurement.
bool NeverMeasured(const BoundOperator& op) {
  return std::visit(
      [](const auto& bound) {
        if constexpr (requires { bound.never_measured(); }) {
          return bound.never_measured();
        } else {
          return false;
        }
      },
      op.bound());
}

// A composite has no single roofline.
void DropSol(PerfResult& result) {
  result.has_sol = false;
  result.sol_math_ms = 0;
  result.sol_mem_ms = 0;
}

}  // namespace

BoundOverlap::BoundOverlap(const Overlap& op, const Database& db)
    : group_a_(BindAll(op.group_a, db)), group_b_(BindAll(op.group_b, db)) {}

Result<PerfResult> BoundOverlap::Query(const QueryContext& ctx) const {
  Result<PerfResult> a = Sum(*group_a_, ctx);
  if (!a) return a;
  const Result<PerfResult> b = Sum(*group_b_, ctx);
  if (!b) return b;
  const double latency = std::max(a->latency_ms, b->latency_ms);
  a->Add(*b);
  a->latency_ms = latency;
  DropSol(*a);
  a->Clamp();
  return a;
}

BoundFallback::BoundFallback(const Fallback& op, const Database& db)
    : primary_(std::make_shared<const BoundOperator>(BoundOperator::Bind(
          *op.primary,
          db.mode() == DatabaseMode::kHybrid ? db.WithMode(DatabaseMode::kSilicon) : db))),
      never_primary_(NeverMeasured(*primary_)),
      fallback_(BindAll(op.fallback, db)) {}

Result<PerfResult> BoundFallback::Query(const QueryContext& ctx) const {
  if (!never_primary_) {
    Result<PerfResult> primary = primary_->Query(ctx);
    if (primary || !IsMissingData(primary.error().kind)) return primary;
  }
  Result<PerfResult> total = Sum(*fallback_, ctx);
  if (!total) return total;
  DropSol(*total);
  total->Clamp();
  return total;
}

}  // namespace infercast
