// The rules of comparison, and the table of error kinds.
#include "golden_check/comparer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "golden_check/error_kinds.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

// Whether `check` leaves no difference.
template <typename Check>
bool Passes(Check check) {
  Outcome outcome;
  Comparer compare(outcome, 1e-9);
  check(compare);
  return outcome.passed();
}
bool SameNumber(const Json& expected, double actual) {
  return Passes([&](Comparer& c) { c.Number("", expected, actual); });
}

TEST(Comparer, NumbersAreRelative) {
  EXPECT_TRUE(SameNumber(2.0, 2.0 * (1 + 0.9e-9)));
  EXPECT_FALSE(SameNumber(2.0, 2.0 * (1 + 1.1e-9)));
  EXPECT_FALSE(SameNumber(2.0, 2.0 * (1 - 1.1e-9)));
  EXPECT_TRUE(SameNumber(-2.0, -2.0));
  EXPECT_FALSE(SameNumber(-2.0, 2.0));
  EXPECT_TRUE(SameNumber(1e-30, 1e-30 * (1 + 1e-10)));
  EXPECT_FALSE(SameNumber(1e-30, 0.0));
}

TEST(Comparer, ZeroIsAbsolute) {
  EXPECT_TRUE(SameNumber(0.0, 1e-13));
  EXPECT_FALSE(SameNumber(0.0, 1e-11));
  EXPECT_FALSE(SameNumber(0, std::nan("")));
}

TEST(Comparer, NonFiniteNumbersAreTexts) {
  EXPECT_TRUE(SameNumber("nan", std::nan("")));
  EXPECT_TRUE(SameNumber("inf", std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(SameNumber("inf", -std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(SameNumber("nan", 1.0));
  EXPECT_FALSE(SameNumber(1.0, std::nan("")));
  EXPECT_FALSE(SameNumber(1.0, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(SameNumber(nullptr, 0.0));
  EXPECT_FALSE(SameNumber("1.0", 1.0));
}

TEST(Comparer, RemembersTheLargestError) {
  Outcome outcome;
  Comparer compare(outcome, 1e-9);
  compare.Number("", 1.0, 1.0 + 1e-10);
  compare.Number("", 1.0, 1.0 + 1e-12);
  EXPECT_NEAR(outcome.largest_relative, 1e-10, 1e-15);
  compare.Number("", 1.0, 2.0);
  EXPECT_EQ(outcome.largest_relative, 1.0);
  EXPECT_EQ(outcome.differences.size(), 1u);
}

TEST(Comparer, RoundedValuesMayDifferByOneUnit) {
  const auto same = [](double expected, double actual, int decimals) {
    return Passes([&](Comparer& c) { c.Rounded("", expected, actual, decimals); });
  };
  EXPECT_TRUE(same(1.234, 1.235, 3));
  EXPECT_TRUE(same(1.234, 1.233, 3));
  EXPECT_FALSE(same(1.234, 1.236, 3));
  EXPECT_TRUE(same(123456.78, 123456.79, 2));
  EXPECT_FALSE(same(1.234, 1.24, 3));
}

TEST(Comparer, TreesCompareByMemberAndInOrder) {
  const auto same = [](const Json& expected, const Json& actual) {
    return Passes([&](Comparer& c) { c.Tree("", expected, actual); });
  };
  EXPECT_TRUE(
      same({{"a", 1}, {"b", {1.0, "x", nullptr}}}, {{"b", {1.0 + 1e-12, "x", nullptr}}, {"a", 1}}));
  EXPECT_TRUE(same(Json::array({1}), Json::array({1.0})));
  EXPECT_FALSE(same(Json::array({1, 2}), Json::array({2, 1})));
  EXPECT_FALSE(same(Json::array({1}), Json::array({1, 1})));
  EXPECT_FALSE(same({{"a", 1}}, Json::object()));
  EXPECT_FALSE(same(Json::object(), {{"a", 1}}));
  EXPECT_FALSE(same("x", "y"));
  EXPECT_FALSE(same(nullptr, 0));
  EXPECT_FALSE(same(9007199254740993LL, 9007199254740992LL));  // integers are exact
}

TEST(Comparer, ErrorsMatchByKind) {
  const auto same = [](const Json& expected, ErrorKind kind) {
    return Passes([&](Comparer& c) { c.ErrorKindOf("", expected, Error{kind, "other text"}); });
  };
  const Json missing = {{"kind", "PerfDatabase"}, {"class", "PerfDataNotAvailableError"}};
  EXPECT_TRUE(same(missing, ErrorKind::kPerfDatabase));
  EXPECT_FALSE(same(missing, ErrorKind::kInvalidEngineConfig));
  EXPECT_FALSE(same(missing, ErrorKind::kInternal));
  EXPECT_TRUE(same({{"class", "ValueError"}}, ErrorKind::kInvalidArgument));
  EXPECT_FALSE(same(Json(), ErrorKind::kPerfDatabase));
}

TEST(ErrorKinds, RowsOfOneMeaning) {
  EXPECT_TRUE(ErrorMatches(ErrorKind::kMissingSystemFlops, "MissingSystemFlops"));
  EXPECT_TRUE(ErrorMatches(ErrorKind::kParquet, "ValueError"));
  EXPECT_TRUE(ErrorMatches(ErrorKind::kDoesNotFit, "RuntimeError"));
  EXPECT_TRUE(ErrorMatches(ErrorKind::kUsage, "SystemExit"));
  EXPECT_FALSE(ErrorMatches(ErrorKind::kUsage, "ValueError"));
  EXPECT_FALSE(ErrorMatches(ErrorKind::kPerfDatabase, "MissingSystemFlops"));
  EXPECT_FALSE(ErrorMatches(ErrorKind::kPerfDatabase, "NoSuchName"));
}

TEST(ErrorKinds, ACrashOfTheReferenceAllowsAnyCleanError) {
  EXPECT_TRUE(ErrorMatches(ErrorKind::kPerfDatabase, "Panic"));
  EXPECT_TRUE(ErrorMatches(ErrorKind::kUsage, "Panic"));
  EXPECT_FALSE(ErrorMatches(ErrorKind::kInternal, "Panic"));
}

}  // namespace
}  // namespace infercast::golden
