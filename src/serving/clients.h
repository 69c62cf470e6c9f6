// The clients of a simulated run: when each request leaves, and when it reaches the scheduler.
//
// Method: a closed loop sends a burst of `concurrency` requests at once and one more for each that
// ends; open arrivals are drawn beforehand. The front end is a server of its own, one request after
// the other: a request is received a fixed time per prompt token after the later of its sending and
// its predecessor's arrival.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "serving/benchmark_load.h"
#include "serving/rank_state.h"

namespace infercast {

class Clients {
 public:
  // `requests`, in order of sending, must outlive the clients; their times of sending and arrival
  // are filled in.
  Clients(const LoadSpec& load, double front_end_ms_per_1000, std::vector<RequestTrace>& requests)
      : load_(load), front_end_(front_end_ms_per_1000), requests_(requests) {}

  // The burst of a closed loop, or every request of open arrivals.
  void Start() {
    if (load_.concurrency > 0) {
      const std::size_t burst =
          std::min(requests_.size(), static_cast<std::size_t>(load_.concurrency));
      while (sent_ < burst) Send(0);
    } else {
      for (const double at : DrawArrivals(load_)) Send(at);
    }
  }
  // A request ended. Whether its client sends another one.
  bool Next(double now) {
    if (load_.concurrency == 0 || sent_ == requests_.size()) return false;
    Send(now);
    return true;
  }
  // How many were sent so far: the first of `requests`.
  std::size_t sent() const { return sent_; }

 private:
  void Send(double at) {
    RequestTrace& r = requests_[sent_];
    r.sent = at;
    const double before = sent_ > 0 ? requests_[sent_ - 1].received : 0;
    r.received = std::max(at, before) + front_end_ * static_cast<double>(r.isl) / 1000;
    ++sent_;
  }

  const LoadSpec& load_;
  double front_end_;
  std::vector<RequestTrace>& requests_;
  std::size_t sent_ = 0;
};

}  // namespace infercast
