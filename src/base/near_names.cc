// Edit distance with a few allowances for how people type names.
#include "base/near_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace infercast {

namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view typed, std::span<const std::string> names,
                                      std::size_t limit) {
  constexpr std::size_t kLongest = 200;  // nothing longer is a mistyped name
  if (typed.empty() || typed.size() > kLongest) return {};
  const std::string wanted = Lower(typed);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string known = Lower(name);
    const bool contains = wanted.size() >= 3 && (known.find(wanted) != std::string::npos ||
                                                 wanted.find(known) != std::string::npos);
    const std::size_t distance = contains ? 1 : EditDistance(wanted, known);
    if (contains || distance <= std::max<std::size_t>(2, wanted.size() / 3)) {
      ranked.emplace_back(distance, name);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (const auto& [distance, name] : ranked) {
    if (out.size() == limit) break;
    out.push_back(name);
  }
  return out;
}

std::string JoinNames(std::span<const std::string> names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

std::string DidYouMean(std::string_view typed, std::span<const std::string> names) {
  const std::vector<std::string> near = NearestNames(typed, names);
  return near.empty() ? std::string() : " (did you mean " + JoinNames(near) + "?)";
}

}  // namespace infercast
