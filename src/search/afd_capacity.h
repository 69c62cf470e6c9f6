// How many requests an attention/FFN-disaggregated deployment has memory for.
//
// Memory is taken as linear in the batch, from two samples; a step of decode sets it.
#pragma once

#include <cstdint>
#include <optional>

#include "serving/afd_simulation.h"

namespace infercast {

struct AfdCapacity {
  std::int64_t attention_batch = 0;  // of one attention worker, over all micro-batches; not aligned
  std::int64_t attention_limit = 0;  // the same in steps of 8, within the limit asked for
  std::int64_t ffn_batch =
      0;  // of one attention worker that the FFN side holds; 0: none or unknown
};
AfdCapacity CapacityOf(const AfdDeployment& deployment, const Workload& workload,
                       std::int64_t micro_batches, std::int64_t max_batch,
                       const AfdOptions& options);

}  // namespace infercast
