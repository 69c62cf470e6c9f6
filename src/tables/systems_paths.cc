// Systems roots from the flag, the environment or the data package.
#include "tables/systems_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tables/data_package.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "INFERCAST_SYSTEMS_PATH";

std::vector<std::string> SplitList(std::string_view list) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::vector<std::string> entries;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const std::size_t first = entry.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    entry = entry.substr(first, entry.find_last_not_of(kBlank) - first + 1);
    entries.emplace_back(entry);
  }
  return entries;
}

bool IsDefaultToken(std::string_view entry) {
  return std::ranges::equal(entry, std::string_view("default"), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

Result<std::vector<fs::path>> ResolveSystemsPaths(std::optional<std::string_view> list) {
  std::string_view origin = "--systems-paths";
  if (!list) {
    if (const char* value = std::getenv(kVariable); value != nullptr) {
      list = value;
      origin = kVariable;
    }
  }
  std::vector<std::string> entries = SplitList(list.value_or(""));
  if (entries.empty()) entries.emplace_back("default");

  std::vector<fs::path> roots;
  std::vector<std::string> invalid;
  for (const std::string& entry : entries) {
    if (IsDefaultToken(entry)) {
      IC_ASSIGN(const fs::path package, DataPackagePath());
      roots.push_back(package / "systems");
      continue;
    }
    std::error_code code;
    if (!fs::is_directory(entry, code)) invalid.push_back(entry);
    roots.emplace_back(entry);
  }
  if (!invalid.empty()) {
    return Fail(ErrorKind::kDataRoot,
                fmt::format("{}: not a directory: {}. Expected folders that hold <system>.yaml, "
                            "separated by commas, or the word default",
                            origin, fmt::join(invalid, ", ")));
  }
  return roots;
}

std::vector<fs::path> ModelConfigPaths(const std::vector<fs::path>& systems_roots) {
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& folder) {
    std::error_code code;
    if (fs::is_directory(folder, code) && std::ranges::find(found, folder) == found.end()) {
      found.push_back(folder);
    }
  };
  for (const fs::path& root : systems_roots) {
    std::error_code code;
    fs::path absolute = fs::absolute(root, code).lexically_normal();
    if (!absolute.has_filename()) absolute = absolute.parent_path();  // trailing slash
    add(absolute.parent_path() / "model_configs");
  }
  if (const auto package = DataPackagePath()) add(*package / "model_configs");
  return found;
}

}  // namespace infercast
