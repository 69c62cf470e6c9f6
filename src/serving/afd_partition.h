// Which operators of a layer run on the attention nodes and which on the FFN nodes.
//
// Operator names tell: builders name an operator after its place in the layer. Operators between
// the two (norms behind attention, logits) are the boundary and go to the side of choice;
// communication of an undivided deployment falls away, as its place is taken by the transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "operators/operator.h"

namespace infercast {

enum class AfdSide : std::uint8_t { kAttention, kFfn };

// Absent: the operator is not run at all. kUnsupportedModel for recurrent layers, for a name that
// fits no rule, and for overlapped groups with members on both sides.
Result<std::optional<AfdSide>> SideOf(const Operator& op, bool boundary_on_attention);

// Positions in an operator list, ascending.
struct AfdPartition {
  std::vector<std::size_t> attention;
  std::vector<std::size_t> ffn;
};
Result<AfdPartition> PartitionOperators(std::span<const Operator> ops, bool boundary_on_attention);

// Resident weight bytes of the operators at these positions.
double WeightBytesAt(std::span<const Operator> ops, std::span<const std::size_t> positions);

}  // namespace infercast
