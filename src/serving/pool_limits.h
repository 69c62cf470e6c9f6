// How many workers a pool may have.
//
// A benchmark run keeps the state of every worker and asks all of them where a request goes: beyond
// the limit it would take minutes and gigabytes. No cluster comes near it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace infercast {

inline constexpr std::int64_t kMostWorkers = 1 << 16;

// kInvalidArgument, with the value and the limits, unless 1 to kMostWorkers. `what` names them.
inline Status CheckWorkers(std::string_view what, std::int64_t workers) {
  if (workers >= 1 && workers <= kMostWorkers) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is {}: expected 1 to {}", what, workers, kMostWorkers));
}

}  // namespace infercast
