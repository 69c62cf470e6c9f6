// Writes small Parquet files for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace infercast::testing {

// Cells of one column; an empty optional is a null cell.
using Cells =
    std::variant<std::vector<std::optional<std::string>>, std::vector<std::optional<std::int64_t>>,
                 std::vector<std::optional<double>>, std::vector<std::optional<bool>>,
                 std::vector<std::optional<std::int32_t>>, std::vector<std::optional<float>>>;

struct Column {
  std::string name;
  Cells cells;
};

inline Column Texts(std::string name, std::vector<std::optional<std::string>> cells) {
  return {std::move(name), std::move(cells)};
}
inline Column Integers(std::string name, std::vector<std::optional<std::int64_t>> cells) {
  return {std::move(name), std::move(cells)};
}
inline Column Reals(std::string name, std::vector<std::optional<double>> cells) {
  return {std::move(name), std::move(cells)};
}
inline Column Flags(std::string name, std::vector<std::optional<bool>> cells) {
  return {std::move(name), std::move(cells)};
}

// Makes parent directories as needed. All columns must be of equal length.
void WriteParquet(const std::filesystem::path& file, const std::vector<Column>& columns);

}  // namespace infercast::testing
