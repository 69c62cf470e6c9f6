// Walks over free-standing lists.
#include "engine/op_lists.h"

#include <fmt/format.h>

#include "engine/engine.h"

namespace infercast {
namespace {

Result<PerfResult> QueryOne(const BoundOperator& op, const OpListQuery& q) {
  return op.Query(q.is_context ? ContextQuery(op, q.batch_size, q.s, q.prefix, q.imbalance, q.x)
                               : GenerationQuery(q.batch_size, 1, q.s, q.imbalance, q.prefix, q.x));
}

}  // namespace

std::vector<BoundOperator> BindOps(std::span<const Operator> ops, const Database& db) {
  std::vector<BoundOperator> bound;
  bound.reserve(ops.size());
  for (const Operator& op : ops) bound.push_back(BoundOperator::Bind(op, db));
  return bound;
}

std::vector<BoundOperator> BindRooflines(std::span<const Operator> ops, const Database& db) {
  return BindOps(ops, db.WithMode(DatabaseMode::kSolFull));
}

Result<Breakdown> EvaluateOps(std::span<const BoundOperator> ops, const OpListQuery& query) {
  Breakdown out;
  for (const BoundOperator& op : ops) {
    IC_ASSIGN(const PerfResult result, QueryOne(op, query));
    out.Add(op.name(), result);
  }
  return out;
}

Result<Breakdown> DecomposeOps(std::span<const BoundOperator> rooflines, const OpListQuery& query) {
  Breakdown out;
  for (const BoundOperator& op : rooflines) {
    IC_ASSIGN(const PerfResult result, QueryOne(op, query));
    if (!result.has_sol && !result.IsZero()) {
      return Fail(ErrorKind::kSolNotImplemented,
                  fmt::format("operator '{}' has no roofline decomposition", op.name()));
    }
    out.Add(op.name(), result);
  }
  return out;
}

Result<Breakdown> EvaluateOps(std::span<const BoundOperator> ops,
                              std::span<const std::size_t> indices, const OpListQuery& query) {
  Breakdown out;
  for (const std::size_t i : indices) {
    if (i >= ops.size()) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("operator index {} is out of range ({} operators)", i, ops.size()));
    }
    IC_ASSIGN(const PerfResult result, QueryOne(ops[i], query));
    out.Add(ops[i].name(), result);
  }
  return out;
}

}  // namespace infercast
