// The rules of comparison.
#include "golden_check/comparer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "golden_check/error_kinds.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

constexpr double kAbsoluteAtZero = 1e-12;

std::optional<double> ToNumber(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return std::nullopt;
}

std::string Short(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 300) text = text.substr(0, 297) + "...";
  return text;
}

}  // namespace

std::string Describe(const Error& error) {
  return fmt::format("error {}: {}", ToString(error.kind), error.message);
}

void Comparer::Number(std::string_view where, const Json& expected, double actual) {
  const auto want = ToNumber(expected);
  if (!want) return Differ(where, Short(expected), fmt::format("{}", actual));
  if (std::isnan(*want) && std::isnan(actual)) return;
  if (*want == actual) return;
  const double difference = std::abs(actual - *want);
  if (*want == 0.0) {
    if (difference > kAbsoluteAtZero || std::isnan(actual)) {
      Differ(where, "0", fmt::format("{}", actual));
    }
    return;
  }
  const double relative = difference / std::abs(*want);
  // NaN and infinities do not satisfy a comparison that is written this way round.
  if (relative <= tolerance_) {
    outcome_.largest_relative = std::max(outcome_.largest_relative, relative);
    return;
  }
  if (std::isfinite(relative)) {
    outcome_.largest_relative = std::max(outcome_.largest_relative, relative);
  } else {
    outcome_.largest_relative = std::numeric_limits<double>::infinity();
  }
  Differ(where, fmt::format("{}", *want), fmt::format("{} (relative {:.2e})", actual, relative));
}

void Comparer::Rounded(std::string_view where, const Json& expected, double actual, int decimals) {
  const auto want = ToNumber(expected);
  if (!want) return Differ(where, Short(expected), fmt::format("{}", actual));
  if ((std::isnan(*want) && std::isnan(actual)) || *want == actual) return;
  const double unit = std::pow(10.0, -decimals);
  // Half a per mille of the unit allows for the binary rounding of the difference itself.
  if (std::abs(actual - *want) <= unit * 1.0005) return;
  Differ(where, fmt::format("{}", *want),
         fmt::format("{} (more than one unit of decimal {})", actual, decimals));
}

void Comparer::Exact(std::string_view where, const Json& expected, const Json& actual) {
  if (expected != actual) Differ(where, Short(expected), Short(actual));
}

void Comparer::Tree(std::string_view where, const Json& expected, const Json& actual) {
  if (expected.is_object() && actual.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      const std::string place = where.empty() ? key : fmt::format("{}.{}", where, key);
      if (const auto found = actual.find(key); found != actual.end()) {
        Tree(place, value, *found);
      } else {
        Differ(place, Short(value), "nothing");
      }
    }
    for (const auto& [key, value] : actual.items()) {
      if (!expected.contains(key)) {
        Differ(where.empty() ? key : fmt::format("{}.{}", where, key), "nothing", Short(value));
      }
    }
  } else if (expected.is_array() && actual.is_array()) {
    if (expected.size() != actual.size()) {
      return Differ(where, fmt::format("{} elements: {}", expected.size(), Short(expected)),
                    fmt::format("{} elements: {}", actual.size(), Short(actual)));
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Tree(fmt::format("{}[{}]", where, i), expected[i], actual[i]);
    }
  } else if (expected.is_number_integer() && actual.is_number_integer()) {
    Exact(where, expected, actual);
  } else if (actual.is_number() && ToNumber(expected)) {
    Number(where, expected, actual.get<double>());
  } else {
    Exact(where, expected, actual);
  }
}

void Comparer::ErrorKindOf(std::string_view where, const Json& expected, const Error& actual) {
  const auto name = [&](const char* key) -> std::string {
    const auto found = expected.is_object() ? expected.find(key) : expected.end();
    return expected.is_object() && found != expected.end() && found->is_string()
               ? found->get<std::string>()
               : std::string();
  };
  const std::string kind = name("kind");
  if (ErrorMatches(actual.kind, kind.empty() ? name("class") : kind)) return;
  Differ(where, Short(expected), Describe(actual));
}

void Comparer::AnswerInsteadOfError(std::string_view where, const Json& expected,
                                    std::string answer) {
  Differ(where, "error " + Short(expected), std::move(answer));
}

void Comparer::ErrorInsteadOfAnswer(std::string_view where, std::string expected,
                                    const Error& actual) {
  Differ(where, std::move(expected), Describe(actual));
}

void Comparer::Differ(std::string_view where, std::string expected, std::string actual) {
  outcome_.differences.push_back({std::string(where), std::move(expected), std::move(actual)});
}

}  // namespace infercast::golden
