// Ctrl-C during long work: the first one asks the work to end and show what it has, the second ends
// the program at once.
#pragma once

#include <atomic>

namespace infercast {

// One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Set by SIGINT and SIGTERM.
  static const std::atomic<bool>& requested();
};

}  // namespace infercast
