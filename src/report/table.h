// A table of results as every writer sees it: named, documented columns and typed cells. Terminal
// tables, CSV, JSON, plots and columnar files are written from this form and from nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace infercast {

// monostate: no value (not simulated, not measured, does not apply).
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

// A real number as a cell; NaN and infinities count as no value.
Cell RealCell(double value);

struct ColumnInfo {
  std::string_view name;     // the field's usual spelling, heads CSV: "tokens/s/gpu"; "": not in it
  std::string_view key;      // identifier for JSON: "tokens_per_s_per_gpu"; "": not in JSON
  std::string_view unit;     // "ms", "1/s", "GiB", "W"; "" for counts and text
  std::string_view heading;  // in terminal tables; "": not shown there
  int decimals = 2;          // of real numbers in terminal tables

  bool operator==(const ColumnInfo&) const = default;
};

struct ResultTable {
  std::vector<ColumnInfo> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
};

// Rows below each other. Columns are united by name and heading, in order of first appearance;
// cells of columns that a part lacks are empty.
ResultTable Concatenate(const std::vector<ResultTable>& parts);

}  // namespace infercast
