// Which trees of systems and measurements a run looks at, in which order.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

// Roots in order of precedence. `list` is a comma-separated list (the flag --systems-paths);
// without it $INFERCAST_SYSTEMS_PATH counts, then the data package. Blank entries drop out, and the
// word `default` in any case stands for the data package's systems. Roots are not merged: a request
// is served by the first that has the system and a usable version. kDataRoot when an entry is not a
// directory (named), or when the data package is meant but has not been fetched.
Result<std::vector<std::filesystem::path>> ResolveSystemsPaths(
    std::optional<std::string_view> list = std::nullopt);

// Folders with model configurations, in order: model_configs beside each root, then the data
// package's; only those that exist, none twice.
std::vector<std::filesystem::path> ModelConfigPaths(
    const std::vector<std::filesystem::path>& systems_roots);

}  // namespace infercast
