// When a closed loop with many requests in flight has shown all that it will: whether its waves
// have become alike, so that one of them can stand for those that were not run.
//
// Method: a wave are as many requests, in order of sending, as are in flight. The first one, the
// opening burst, and the last one, which drains, are always run. In between, once the mean time to
// the first token and the mean latency drift so little from wave to wave that the same drift in
// every wave left out would move the mean over all ten by less than a tolerance, no more requests
// are sent. The last whole wave before the draining one then counts for itself and for those left
// out. Small loads are always run whole.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "serving/benchmark_load.h"

namespace infercast {

// Runs with up to this many requests in flight are whole.
inline constexpr std::int64_t kAlwaysWhole = 1024;

class WaveWatch {
 public:
  explicit WaveWatch(const LoadSpec& load)
      : wave_(static_cast<std::size_t>(load.concurrency)),
        watching_(load.concurrency > kAlwaysWhole && load.requests == 0) {}

  // A request's first token came after `ms`.
  void First(std::size_t request, double ms) {
    if (watching_) waves_[request / wave_].ttft += ms;
  }
  // A request ended, `ms` after it was sent. True, once: the `sent` requests so far are enough.
  bool Ended(std::size_t request, double ms, std::size_t sent) {
    if (!watching_) return false;
    Wave& wave = waves_[request / wave_];
    wave.latency += ms;
    ++wave.ended;
    bool enough = false;
    while (!enough && whole_ < waves_.size() && waves_[whole_].ended == wave_) {
      enough = Alike(whole_++, sent);
    }
    watching_ = !enough && whole_ < waves_.size();
    return enough;
  }

 private:
  static constexpr std::size_t kFirstJudged = 2;  // after the burst and one more
  static constexpr double kTolerance = 0.004;
  static constexpr double kFastestDecay = 0.5;

  struct Wave {
    double ttft = 0, latency = 0;  // sums, ms
    std::size_t ended = 0;
  };

  bool Alike(std::size_t last, std::size_t sent) const {
    if (last < kFirstJudged) return false;
    const double left_out =
        static_cast<double>(waves_.size()) - static_cast<double>(sent) / static_cast<double>(wave_);
    if (left_out < 1) return false;
    return Settled(&Wave::ttft, last, left_out) && Settled(&Wave::latency, last, left_out);
  }

  bool Settled(double Wave::* sum, std::size_t last, double left_out) const {
    const double drift = std::abs(waves_[last].*sum - waves_[last - 1].*sum);
    double decay = 1;
    if (last > kFirstJudged) {
      const double before = std::abs(waves_[last - 1].*sum - waves_[last - 2].*sum);
      if (drift < before) decay = std::max(kFastestDecay, drift / before);
    }
    // What the waves left out may be away from the one that stands for them, all together.
    double away = 0, step = drift, total = 0;
    for (double m = 0; m < left_out; ++m) {
      step *= decay;
      away += step;
      total += away;
    }
    double all = static_cast<double>(waves_.size() - 1 - last) * waves_[last].*sum;
    for (std::size_t i = 0; i <= last; ++i) all += waves_[i].*sum;
    return total <= kTolerance * all;
  }

  std::size_t wave_;
  bool watching_;
  std::array<Wave, kLoadWaves> waves_{};
  std::size_t whole_ = 0;  // waves that have ended
};

}  // namespace infercast
