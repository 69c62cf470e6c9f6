// Which limits a deployment breaks, and by how much: what errors tell where nothing meets the
// targets. Words are made only when asked for, since searches weigh many rows.
#pragma once

#include <fmt/format.h>

#include <algorithm>
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
    worst_ = std::max(worst_, limit > 0 ? value / limit : std::numeric_limits<double>::max());
  }

  bool any() const { return count_ > 0; }
  // Largest ratio of a figure to its limit; 0 where none is broken.
  double worst() const { return worst_; }
  // "ttft 2100.40 > 2000 ms, tpot 31.00 > 30 ms".
  std::string Text() const {
    std::string text;
    for (std::size_t i = 0; i < count_; ++i) {
      const Broken& b = broken_[i];
      text +=
          fmt::format("{}{} {:.2f} > {:g}{}", i == 0 ? "" : ", ", b.name, b.value, b.limit, b.unit);
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
  double worst_ = 0;
};

}  // namespace infercast
