// Writes any typed columns, with missing values, as one Parquet file: how results leave the program
// for data frames. Arrow stays inside this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

namespace infercast {

struct FileColumn {
  std::string name;
  std::variant<std::vector<std::optional<bool>>, std::vector<std::optional<std::int64_t>>,
               std::vector<std::optional<double>>, std::vector<std::optional<std::string>>>
      values;
};

// All columns of one length. The file appears whole or not at all. kIo.
Status WriteColumnFile(std::span<const FileColumn> columns, const std::filesystem::path& file);

}  // namespace infercast
