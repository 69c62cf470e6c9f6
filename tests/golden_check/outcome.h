// What came of one golden case: passed, or the places where answer and expectation differ.
#pragma once

#include <string>
#include <vector>

namespace infercast::golden {

struct Difference {
  std::string where;
  std::string expected;
  std::string actual;
};

struct Outcome {
  std::string kind;     // "operator", "engine runs", ...
  std::string variant;  // operator kind, model family, call ...
  std::string id;
  std::vector<Difference> differences;  // empty: passed
  double largest_relative = 0;          // over the numbers that were compared

  bool passed() const { return differences.empty(); }
};

// An outcome that fails because the answer cannot be given at all.
inline Outcome Failed(std::string kind, std::string variant, std::string id, std::string expected,
                      std::string actual) {
  return {std::move(kind),
          std::move(variant),
          std::move(id),
          {{"", std::move(expected), std::move(actual)}},
          0};
}

}  // namespace infercast::golden
