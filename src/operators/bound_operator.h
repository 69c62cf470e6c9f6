// An operator bound to a database: everything that does not change from step to step is resolved
// (table slice, number format, neighbours), so a query is arithmetic over contiguous arrays.
//
// Binding never fails: what is wrong (missing table, missing FLOPS figure) is kept and answered by
// every query, in the order of precedence of the operator's rules. Bound operators are immutable
// and may be queried from any number of threads. They hold the store alive.
//
// A family adds itself by a header that defines `class BoundX { BoundX(const X&, const Database&);
// Result<PerfResult> Query(const QueryContext&) const; }`, specialises BoundOf<X>, and is included
// below.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"
// Families (alphabetical).
#include "operators/collectives.h"
#include "operators/composite.h"
#include "operators/context_attention.h"
#include "operators/dsa.h"
#include "operators/dsv4_attention.h"
#include "operators/encoder_attention.h"
#include "operators/forward_pass.h"
#include "operators/gemm.h"
#include "operators/generation_attention.h"
#include "operators/hyper_connection.h"
#include "operators/mega_moe.h"
#include "operators/memory_ops.h"
#include "operators/mla.h"
#include "operators/mla_module.h"
#include "operators/moe.h"
#include "operators/moe_all_to_all.h"
#include "operators/moe_dispatch.h"
#include "operators/moe_expert_compute.h"
#include "operators/msa.h"
#include "operators/state_space.h"
#include "operators/vision.h"
#include "operators/wide_ep_mla.h"

namespace infercast {

namespace internal {
template <typename Variant>
struct BoundVariantOf;
template <typename... Wire>
struct BoundVariantOf<std::variant<Wire...>> {
  using type = std::variant<typename BoundOf<Wire>::type...>;
};
}  // namespace internal

using BoundVariant = internal::BoundVariantOf<OperatorVariant>::type;

class BoundOperator {
 public:
  static BoundOperator Bind(const Operator& op, const Database& db);

  Result<PerfResult> Query(const QueryContext& ctx) const {
    return std::visit([&](const auto& bound) { return bound.Query(ctx); }, bound_);
  }
  const std::string& name() const { return name_; }
  bool is_context_attention() const { return is_context_attention_; }
  bool is_generation_attention() const { return is_generation_attention_; }
  bool is_logits_gemm() const { return is_logits_gemm_; }  // a Gemm whose name has "logits_gemm"
  const BoundVariant& bound() const { return bound_; }

 private:
  BoundOperator(BoundVariant bound, std::string name, std::shared_ptr<const TableStore> store)
      : store_(std::move(store)), bound_(std::move(bound)), name_(std::move(name)) {}

  std::shared_ptr<const TableStore> store_;  // what the bound parts point into
  BoundVariant bound_;
  std::string name_;
  bool is_context_attention_ = false;
  bool is_generation_attention_ = false;
  bool is_logits_gemm_ = false;
};

// Resident weight bytes of an operator: structural, reads no table. Attention, communication and
// memory-bound kinds hold none.
double WeightBytes(const Operator& op);

}  // namespace infercast
