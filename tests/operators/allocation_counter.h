// Counts heap allocations of a stretch of code. The program that links allocation_counter.cc
// replaces the global operator new.
#pragma once

#include <cstdint>

namespace infercast::testing {

// Allocations of the calling thread so far.
std::uint64_t AllocationCount();

template <typename F>
std::uint64_t AllocationsDuring(F&& f) {
  const std::uint64_t before = AllocationCount();
  f();
  return AllocationCount() - before;
}

}  // namespace infercast::testing
