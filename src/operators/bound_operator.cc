// Binding: dispatch over the operator kinds.
#include "operators/bound_operator.h"

#include <utility>

namespace infercast {

namespace {

template <std::size_t I>
BoundVariant BindAt(const OperatorVariant& op, const Database& db) {
  if constexpr (I < std::variant_size_v<OperatorVariant>) {
    if (op.index() == I) return BoundVariant(std::in_place_index<I>, std::get<I>(op), db);
    return BindAt<I + 1>(op, db);
  } else {
    std::unreachable();
  }
}

}  // namespace

BoundOperator BoundOperator::Bind(const Operator& op, const Database& db) {
  BoundOperator bound(BindAt<0>(op.kind, db), op.name(), db.shared_store());
  bound.is_context_attention_ = op.name() == "context_attention";
  bound.is_generation_attention_ = op.name() == "generation_attention";
  bound.is_logits_gemm_ =
      std::holds_alternative<Gemm>(op.kind) && op.name().find("logits_gemm") != std::string::npos;
  return bound;
}

}  // namespace infercast
