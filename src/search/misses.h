// Which limits a deployment breaks, and by how much: what errors tell where nothing meets the
// targets. Words are made only when asked for, since searches weigh many rows.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace infercast {

class Misses {
 public:
  // At most four limits. `name` and `unit` (which follows the limit, e.g. " ms") are static.
  void Check(std::string_view name, double value, double limit, std::string_view unit = " ms") {
    if (value <= limit || count_ == broken_.size()) return;
    broken_[count_++] = {name, unit, value, limit};
    distance_ += limit > 0 ? value / limit - 1 : std::numeric_limits<double>::max();
  }

  bool any() const { return count_ > 0; }
  // By how many times their limits the figures exceed them, in all; 0 where none is broken.
  double distance() const { return distance_; }
  // "ttft 2100.4 > 2000 ms, tpot 30.021 > 30 ms".
  std::string Text() const {
    std::string text;
    for (std::size_t i = 0; i < count_; ++i) {
      const Broken& b = broken_[i];
      const int decimals = b.value - b.limit < 0.1 ? 3 : 1;
      text += fmt::format("{}{} {:.{}f} > {:g}{}", i == 0 ? "" : ", ", b.name, b.value, decimals,
                          b.limit, b.unit);
    }
    return text;
  }

 private:
  struct Broken {
    std::string_view name, unit;
    double value = 0, limit = 0;
  };
  std::array<Broken, 4> broken_;
  std::size_t count_ = 0;
  double distance_ = 0;
};

}  // namespace infercast
