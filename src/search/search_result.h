// Why points of a search were dropped, and what is said when nothing is left.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/modes.h"

namespace infercast {

struct SearchTally {
  std::uint64_t evaluated = 0;     // points that gave a row
  std::uint64_t not_measured = 0;  // points without data
  std::uint64_t oom = 0;           // points that do not fit in memory
  std::uint64_t kv_oom = 0;        // points whose KV cache does not fit
  std::uint64_t missed = 0;        // rows that miss the target
  std::uint64_t failed_layouts = 0;
  std::optional<Error> failure;  // of a layout that could not be built or evaluated

  void Merge(const SearchTally& other) {
    evaluated += other.evaluated;
    not_measured += other.not_measured;
    oom += other.oom;
    kv_oom += other.kv_oom;
    missed += other.missed;
    failed_layouts += other.failed_layouts;
    // A missing measurement explains more than anything that followed from it.
    if (other.failure && (!failure || !IsMissingData(failure->kind))) failure = other.failure;
  }
};

// The error of a search without rows. Reference behaviour: the reason that comes first of broken
// layouts, missing measurements, memory, KV cache, targets. Natively a layout that cannot be built
// is the reason only where no other layout came further.
Error NothingFound(const SearchTally& tally, const char* what, Behaviour behaviour);

}  // namespace infercast
