// Ordering of Python package versions (PEP 440): 1.0.dev2 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1.
//
// Measured data is filed under framework versions; which of two is the older decides whose rows may
// fill a gap. A text that is no PEP 440 version has no place in this order.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace infercast {

class Pep440 {
 public:
  static std::optional<Pep440> Parse(std::string_view text);

  std::strong_ordering operator<=>(const Pep440& other) const;
  bool operator==(const Pep440& other) const { return (*this <=> other) == 0; }

 private:
  std::uint64_t epoch_ = 0;
  std::vector<std::uint64_t> release_;  // without trailing zeros
  int pre_kind_ = -1;                   // 0 = alpha, 1 = beta, 2 = rc; -1 = none
  std::uint64_t pre_ = 0;
  std::optional<std::uint64_t> post_, dev_;
  std::vector<std::variant<std::string, std::uint64_t>> local_;  // text sorts before numbers
};

}  // namespace infercast
