// Reads golden files: .json, .json.gz, .jsonl and .jsonl.gz.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace infercast::golden {

// The documents of a file: one for JSON, one a line for JSON Lines. kIo when it cannot be opened,
// kCorruptData when it is not what its name says.
Result<std::vector<nlohmann::json>> LoadDocuments(const std::filesystem::path& file);

}  // namespace infercast::golden
