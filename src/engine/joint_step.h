// The price of a step that prefills and decodes at once, from the operators of the two phases.
//
// Method ("joint pass within bounds"): operators that see tokens only run once over the tokens of
// both kinds of work, as the prefill list describes them; whatever depends on the sequences
// (attention of every kind, recurrent states, blocks that contain them) runs for prompts and for
// decodes apart. Measured curves have plateaus and jumps, and the two lists may name different
// kernels, so a joint pass may come out above the two passes apart, or below one of them. Neither
// can be: running both apart is always possible, and doing more work is never faster. An operator
// is therefore held against its counterpart in the other list: above the sum it counts as the two
// passes, below the larger one as that one. Sums of operators inherit both bounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/engine_spec.h"

namespace infercast {

// The work of one step on one rank.
struct JointWork {
  std::uint32_t prompts = 0;         // 0: no prefill
  std::uint32_t new_tokens = 0;      // of each prompt
  std::uint32_t prefix = 0;          // cached tokens of each prompt
  std::uint32_t prefill_tokens = 0;  // of the step, all prompts; parts of prompts where chunked
  std::uint32_t prefill_chunks = 1;  // steps that share the attention of the prompts
  std::uint32_t sequences = 0;       // that decode, drafts included; 0: no decode
  std::uint32_t kv_length = 0;       // of each
  double context_imbalance = 1.0;
  double generation_imbalance = 1.0;
};

// Immutable. Holds positions in the two operator lists of the description it was made from.
class JointStep {
 public:
  explicit JointStep(const EngineSpec& spec);

  // `context` and `generation`: the bound lists of that description. The first error of an
  // operator is the answer. The scalar form does not allocate on success.
  Result<MixedCost> Cost(std::span<const BoundOperator> context,
                         std::span<const BoundOperator> generation, const JointWork& work) const;
  // Entries bear the names of the operators that were asked; a pair that counts as two passes, or
  // as its decode pass, is entered under the name of its prefill operator.
  Result<MixedBreakdown> Explain(std::span<const BoundOperator> context,
                                 std::span<const BoundOperator> generation,
                                 const JointWork& work) const;

 private:
  // Operators of the two lists that do the same work.
  struct Group {
    std::vector<std::uint32_t> context;
    std::vector<std::uint32_t> generation;
    bool pair = false;    // one of each, of one name
    bool linear = false;  // a pair whose cost grows linearly: its joint pass is within the bounds
  };
  struct Walk;
  template <typename Parts>
  Status Price(const Walk& walk, Parts& parts) const;
  template <typename Part>
  static Status PricePair(const Walk& walk, const Group& group, Part& shared);
  template <typename Part>
  static Status PriceGroup(const Walk& walk, const Group& group, Part& shared);

  std::vector<std::uint32_t> prefill_attention_;
  std::vector<std::uint32_t> decode_attention_;
  std::vector<Group> groups_;
};

}  // namespace infercast
