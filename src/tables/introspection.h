// What was measured: summaries of tables, their rows one by one, and files of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tables/database.h"

namespace infercast {

// One key level of a table.
struct LevelSummary {
  std::string name;
  bool is_text = false;
  bool is_axis = false;            // a numeric axis of the grid, not a discrete key
  std::vector<std::string> texts;  // text levels: ascending
  std::vector<double> values;      // number levels: distinct values, ascending
};

struct SourceSummary {
  TableSource source;
  std::size_t points = 0;  // measured points that come from it
};

struct TableSummary {
  TableId id = TableId::kGemm;
  std::string name;
  std::string file;        // stem of the measured file, the first of several
  std::size_t points = 0;  // measured points
  bool has_power = false;
  std::vector<LevelSummary> levels;
  // Number formats of the first level that holds some, by first appearance; empty if none does.
  std::vector<std::string> quant_modes;
  std::vector<SourceSummary> sources;  // those that exist, in priority order
  bool corrupt = false;                // files exist but cannot be used
  std::string problem;                 // why there is no table; empty if there is one
};

// Summary of one table; loads it.
TableSummary Summarize(const TableStore& store, TableId id);
// Summaries of all tables that were measured or are damaged, in the order of TableId.
std::vector<TableSummary> ListTables(const TableStore& store);

// Number of trailing levels that are grid axes.
int NumAxes(TableId id);

// The table called `name` (as TableName spells it, '-' counting as '_'). kUnknownName names what
// there is.
Result<TableId> ParseTableName(std::string_view name);

// Distinct texts of a level in the order in which they first appear in the measured rows.
std::vector<std::string> TextsByFirstAppearance(const Table& table, std::uint32_t level);

// A row: key texts or numbers level by level.
struct RowCell {
  const std::string* text = nullptr;  // set for text levels
  double number = 0;
};
// Calls `visit(cells, leaf)` for every measured point in key order; stops when it returns false.
void VisitRows(const Table& table,
               const std::function<bool(std::span<const RowCell>, std::uint32_t leaf)>& visit);

// Writes all rows as a Parquet file: the levels (text, or integer where all keys are whole),
// latency_ms, and power_w and energy_wms where the table has power. Replaces the file as a whole.
Status WriteTableParquet(const Table& table, const std::filesystem::path& file);

}  // namespace infercast
