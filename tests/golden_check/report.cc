// Output of the program.
#include "golden_check/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace infercast::golden {
namespace {
// Differences of one failed case beyond these are only counted.
constexpr std::size_t kMaxDifferences = 4;
}  // namespace

void Report::Add(const std::string& file, const Outcome& outcome) {
  Group& group = groups_[{outcome.kind, outcome.variant}];
  ++group.cases;
  group.largest_relative = std::max(group.largest_relative, outcome.largest_relative);
  if (outcome.passed()) return;
  ++group.failed;
  if (group.first.size() < max_failures_) group.first.push_back({file, outcome});
}

void Report::AddUnreadable(const std::string& file, const std::string& why) {
  unreadable_.emplace_back(file, why);
}

std::size_t Report::cases() const {
  std::size_t sum = 0;
  for (const auto& [key, group] : groups_) sum += group.cases;
  return sum;
}

std::size_t Report::failed() const {
  std::size_t sum = 0;
  for (const auto& [key, group] : groups_) sum += group.failed;
  return sum;
}

std::string Report::Text() const {
  std::string out;
  const auto line = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
    out += '\n';
  };
  std::size_t kind_width = 4;
  std::size_t variant_width = 7;
  for (const auto& [key, group] : groups_) {
    kind_width = std::max(kind_width, key.first.size());
    variant_width = std::max(variant_width, key.second.size());
  }
  line("{:<{}}  {:<{}}  {:>6}  {:>6}  {:>6}  {:>16}", "kind", kind_width, "variant", variant_width,
       "cases", "passed", "failed", "largest relative");
  for (const auto& [key, group] : groups_) {
    line("{:<{}}  {:<{}}  {:>6}  {:>6}  {:>6}  {:>16.2e}", key.first, kind_width, key.second,
         variant_width, group.cases, group.cases - group.failed, group.failed,
         group.largest_relative);
  }
  for (const auto& [key, group] : groups_) {
    for (const Failure& failure : group.first) {
      const Outcome& outcome = failure.outcome;
      line("\nFAILED {} {} {} ({})", outcome.kind, outcome.variant, outcome.id, failure.file);
      for (std::size_t i = 0; i < outcome.differences.size(); ++i) {
        if (i == kMaxDifferences) {
          line("  and {} more differences", outcome.differences.size() - i);
          break;
        }
        const Difference& difference = outcome.differences[i];
        if (!difference.where.empty()) line("  {}", difference.where);
        line("    expected  {}", difference.expected);
        line("    actual    {}", difference.actual);
      }
    }
    if (group.failed > group.first.size()) {
      line("\n{} {}: {} more failures", key.first, key.second, group.failed - group.first.size());
    }
  }
  for (const auto& [file, why] : unreadable_) line("\nUNREADABLE {}: {}", file, why);
  line("\n{} cases, {} passed, {} failed", cases(), cases() - failed(), failed());
  return out;
}

std::string Report::Json() const {
  using nlohmann::ordered_json;
  ordered_json out;
  out["cases"] = cases();
  out["passed"] = cases() - failed();
  out["failed"] = failed();
  out["groups"] = ordered_json::array();
  for (const auto& [key, group] : groups_) {
    ordered_json entry;
    entry["kind"] = key.first;
    entry["variant"] = key.second;
    entry["cases"] = group.cases;
    entry["passed"] = group.cases - group.failed;
    entry["failed"] = group.failed;
    if (std::isfinite(group.largest_relative)) {
      entry["largest_relative_error"] = group.largest_relative;
    } else {
      entry["largest_relative_error"] = nullptr;
    }
    entry["failures"] = ordered_json::array();
    for (const Failure& failure : group.first) {
      ordered_json item;
      item["file"] = failure.file;
      item["id"] = failure.outcome.id;
      item["differences"] = ordered_json::array();
      for (const Difference& difference : failure.outcome.differences) {
        item["differences"].push_back({{"where", difference.where},
                                       {"expected", difference.expected},
                                       {"actual", difference.actual}});
      }
      entry["failures"].push_back(std::move(item));
    }
    out["groups"].push_back(std::move(entry));
  }
  out["unreadable"] = ordered_json::array();
  for (const auto& [file, why] : unreadable_) {
    out["unreadable"].push_back({{"file", file}, {"error", why}});
  }
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace infercast::golden
