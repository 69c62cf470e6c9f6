// Running requests of one data-parallel rank: when each ends, how long they are, what memory they
// hold. Time is counted in decode ticks of the worker; a heap finds the next end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "serving/step_costs.h"

namespace infercast {

class RunningSet {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  bool empty() const { return heap_.empty(); }
  double MeanLength() const {
    return heap_.empty() ? 0 : length_sum_ / static_cast<double>(heap_.size());
  }
  // The tick after which the next request ends.
  std::int64_t NextEnd() const { return heap_.empty() ? kNever : heap_.front().first; }

  // `length`: KV tokens of its first decode step.
  void Join(std::uint32_t request, std::int64_t end_tick, double length) {
    heap_.emplace_back(end_tick, request);
    std::ranges::push_heap(heap_, std::greater<>());
    length_sum_ += length;
  }
  void Advance(std::int64_t ticks, double progress) {
    length_sum_ += static_cast<double>(ticks) * progress * static_cast<double>(heap_.size());
  }
  // The request that ended at or before `tick`, if any; `length_of(request)`: its length now.
  template <typename LengthOf>
  std::optional<std::uint32_t> TakeEnded(std::int64_t tick, LengthOf&& length_of) {
    if (heap_.empty() || heap_.front().first > tick) return std::nullopt;
    std::ranges::pop_heap(heap_, std::greater<>());
    const std::uint32_t request = heap_.back().second;
    heap_.pop_back();
    length_sum_ = heap_.empty() ? 0 : length_sum_ - length_of(request);
    return request;
  }

 private:
  std::vector<std::pair<std::int64_t, std::uint32_t>> heap_;
  double length_sum_ = 0;
};

// One request on its way. Times in ms since the start.
struct RequestTrace {
  std::int64_t isl = 1, osl = 1;
  std::int64_t ticks = 0;  // decode steps it takes after its first token
  double reserve = 0;      // KV bytes
  double sent = 0, received = 0, seen = -1, started = -1, prefilled = 0, first = 0, ended = 0;
};

}  // namespace infercast
