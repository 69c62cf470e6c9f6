// The classic movement of tokens around the experts: one or two collectives
// chosen by framework, parallel layout and direction, or TensorRT-LLM's own
// all-to-all.
//
// Only latencies of the parts count. The reference labels the sum silicon and
// gives it no energy, whatever the parts were; our own origin tells what they
// were.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.h"
#include "operators/collectives.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/trtllm_all_to_all.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundMoeDispatch {
 public:
  BoundMoeDispatch(const MoeDispatch& op, const Database& db);
  // kInvalidEngineConfig for the retired flavor; errors of the parts as they
  // are.
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  struct Part {
    std::variant<BoundCustomAllReduce, BoundNccl> collective;
    std::uint32_t token_factor = 1;
  };
  class Builder;

  bool retired_ = false;
  std::vector<Part> parts_;
  std::optional<TrtllmAllToAll> all_to_all_;
  double scale_factor_;
};

template <>
struct BoundOf<MoeDispatch> {
  using type = BoundMoeDispatch;
};

}  // namespace infercast
