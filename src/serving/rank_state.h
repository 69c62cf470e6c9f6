// Running requests of one data-parallel rank: when each ends, how long they are, what memory they
// hold. Time is counted in decode ticks of the worker; a heap finds the next end.
//
// An end is one number, the tick above the request, so that ends at one tick leave in order of
// their requests: 21 bits hold every request of a run (benchmark_load.h), 43 its ticks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "serving/step_costs.h"

namespace infercast {

// Ends of requests, earliest first.
class EndHeap {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  std::int64_t NextTick() const {
    return heap_.empty() ? kNever : static_cast<std::int64_t>(heap_.front() >> kRequestBits);
  }
  std::uint32_t NextRequest() const {
    return static_cast<std::uint32_t>(heap_.front() & kRequestMask);
  }
  void Push(std::int64_t tick, std::uint32_t request) {
    heap_.push_back((static_cast<std::uint64_t>(tick) << kRequestBits) | request);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  std::uint32_t Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const std::uint64_t end = heap_.back();
    heap_.pop_back();
    return static_cast<std::uint32_t>(end & kRequestMask);
  }

 private:
  static constexpr int kRequestBits = 21;
  static constexpr std::uint64_t kRequestMask = (std::uint64_t{1} << kRequestBits) - 1;

  std::vector<std::uint64_t> heap_;
};

// How long the running requests of a rank are, when all of them grow with every tick.
class RunningLengths {
 public:
  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // `length`: KV tokens of its first decode step, the one after `tick`; `progress`: tokens a tick.
  void Join(std::int64_t tick, double length, double progress) {
    ++size_;
    at_start_ += length - static_cast<double>(tick) * progress;
  }
  // What was joined.
  void Leave(std::int64_t joined, double length, double progress) {
    at_start_ = --size_ == 0 ? 0 : at_start_ - (length - static_cast<double>(joined) * progress);
  }
  double MeanAt(std::int64_t tick, double progress) const {
    if (size_ == 0) return 0;
    const double n = static_cast<double>(size_);
    return (at_start_ + n * (static_cast<double>(tick) * progress)) / n;
  }

 private:
  std::int64_t size_ = 0;
  double at_start_ = 0;  // sum of the lengths, counted back to tick 0
};

// One request on its way. Times in ms since the start. What its end touches stands together.
struct RequestTrace {
  std::int32_t isl = 1, osl = 1;
  std::int32_t ticks = 0;        // decode steps it takes after its first token
  std::uint32_t rank = 0;        // of the worker that decodes it, where there are several workers
  double reserve = 0;            // KV bytes
  double joined = 0, ended = 0;  // the decodes; joined only where there are any
  double first = 0, sent = 0, received = 0, seen = -1, started = -1, prefilled = 0;
};

}  // namespace infercast
