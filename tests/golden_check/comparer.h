// Compares answers with expectations and collects the differences of one case.
//
// Numbers: relative error at most the tolerance, or absolute error at most 1e-12 where 0 is
// expected. Texts, integers, orders and truth values: exact. Errors: by the table of kinds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "golden_check/outcome.h"

namespace infercast::golden {

class Comparer {
 public:
  Comparer(Outcome& outcome, double tolerance) : outcome_(outcome), tolerance_(tolerance) {}

  // `expected` must be a number, or the text of a non-finite one ("nan", "inf", "-inf").
  void Number(std::string_view where, const nlohmann::json& expected, double actual);
  // Within one unit of the given decimal, for values that the reference rounded.
  void Rounded(std::string_view where, const nlohmann::json& expected, double actual, int decimals);
  // Equal as JSON values, an integer and a floating-point number of the same value included.
  void Exact(std::string_view where, const nlohmann::json& expected, const nlohmann::json& actual);
  // Structures: objects by member, lists in order, numbers by Number, the rest by Exact.
  void Tree(std::string_view where, const nlohmann::json& expected, const nlohmann::json& actual);
  // The expected error (an object with `kind` and perhaps `class`) against ours.
  void ErrorKindOf(std::string_view where, const nlohmann::json& expected, const Error& actual);
  // An answer where an error was expected, and the other way round.
  void AnswerInsteadOfError(std::string_view where, const nlohmann::json& expected,
                            std::string answer);
  void ErrorInsteadOfAnswer(std::string_view where, std::string expected, const Error& actual);

  void Differ(std::string_view where, std::string expected, std::string actual);

 private:
  Outcome& outcome_;
  double tolerance_;
};

std::string Describe(const Error& error);

}  // namespace infercast::golden
