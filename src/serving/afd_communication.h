// What crosses between attention and FFN nodes in one layer, and how long it takes.
//
// Each attention worker sends its tokens' activations to the FFN nodes that hold one of their
// experts, there they are gathered and the results scattered within each node, sent back, and
// added up. A token goes to a node with the probability that one of its k experts lives there.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/modes.h"
#include "operators/collectives.h"
#include "operators/memory_ops.h"
#include "serving/afd_topology.h"
#include "tables/database.h"

namespace infercast {

// Sizes of the model that transfers depend on.
struct AfdTraffic {
  std::int64_t hidden_size = 0;
  std::int64_t num_experts = 0;  // 0: dense
  std::int64_t topk = 0;
  CommQuant format = CommQuant::kHalf;
};

// Probability that a token must go to one particular of `nodes` FFN nodes.
double SendProbability(std::int64_t nodes, std::int64_t num_experts, std::int64_t topk);

// Times per layer, ms.
struct AfdTransfers {
  double to_ffn = 0;
  double to_attention = 0;
  double all_gather = 0;      // within an FFN node
  double reduce_scatter = 0;  // within an FFN node
  double combine = 0;         // adding up the parts on the attention side
};

// Immutable; safe to share between threads. Holds the database alive.
class AfdCommunication {
 public:
  AfdCommunication(const Database& db, const AfdLayout& layout, const AfdTraffic& traffic);

  // `tokens` of one attention worker in one step; all zero for 0 tokens. kPerfDatabase where the
  // collectives are not measured, kInvalidArgument for more bytes than one transfer can count.
  Result<AfdTransfers> Price(std::int64_t tokens) const;

 private:
  Result<double> Transfer(double bytes) const;

  Database db_;
  AfdLayout layout_;
  AfdTraffic traffic_;
  double element_bytes_;
  double send_probability_;
  std::int64_t local_gpus_;  // of one FFN node
  std::optional<LibraryCollective> all_gather_;
  std::optional<LibraryCollective> reduce_scatter_;
  MemoryTraffic memory_;
};

}  // namespace infercast
