// Pricing of free-standing operator lists: a part of a model, an encoder, one operator.
//
// Bind once, evaluate often. Entries are folded by name in order of first appearance. Substitution
// records and origins in an answer live in the bound operators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/breakdown.h"
#include "operators/bound_operator.h"
#include "operators/operator.h"
#include "tables/database.h"

namespace infercast {

// The shape of one call. Token counts are per rank.
struct OpListQuery {
  bool is_context = true;  // prefill, else decode
  std::uint32_t batch_size = 1;
  std::uint32_t s = 1;  // prefill: new tokens per request; decode: KV length
  std::uint32_t prefix = 0;
  double imbalance = 1.0;               // scale of that phase's attention
  std::optional<std::uint32_t> x = {};  // overrides the token count of token-major operators
};

std::vector<BoundOperator> BindOps(std::span<const Operator> ops, const Database& db);
// The same against the roofline, whatever the database's mode: for DecomposeOps.
std::vector<BoundOperator> BindRooflines(std::span<const Operator> ops, const Database& db);

// The first failing operator's error, if any.
Result<Breakdown> EvaluateOps(std::span<const BoundOperator> ops, const OpListQuery& query);

// Rooflines in two parts per name: sol_ms, sol_math_ms, sol_mem_ms of the entries (sol_ms is the
// larger of the two only for a single operator). An operator without the two parts is
// kSolNotImplemented unless it costs nothing.
Result<Breakdown> DecomposeOps(std::span<const BoundOperator> rooflines, const OpListQuery& query);

// Positions in a list, repeats allowed, in the given order. kInvalidEngineConfig for a position
// beyond the end, when the walk reaches it.
Result<Breakdown> EvaluateOps(std::span<const BoundOperator> ops,
                              std::span<const std::size_t> indices, const OpListQuery& query);

}  // namespace infercast
