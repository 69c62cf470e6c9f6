// The pool of encode workers in front of a deployment, as its row shows it.
#pragma once

#include <cstdint>

namespace infercast {

struct EncoderStage {
  std::int64_t language_workers = 1;  // aggregated workers behind the pool
  std::int64_t workers = 0;
  std::int64_t tp = 0;
  std::int64_t bs = 0;
  double memory = 0;  // GiB per GPU of an encode worker

  bool operator==(const EncoderStage&) const = default;
};

}  // namespace infercast
