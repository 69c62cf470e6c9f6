// How the files of one table become its rows, described as data.
//
// A recipe names the files, the key of a row column by column (text, integer, sum of two, optional
// with a default ...), and the few rules a table may add: a row filter, a rewrite of leaves, a rule
// for duplicates. Tables that fit no such description bring a reader function of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hardware/system_spec.h"
#include "tables/database.h"
#include "tables/readers/row_file.h"
#include "tables/table_builder.h"

namespace infercast {

// The key value of a row.
using KeyCell = std::function<double(std::size_t row)>;

struct KeyColumn {
  std::string level;
  bool is_text = false;
  std::vector<std::string_view> columns;  // what it reads
  std::function<KeyCell(RowFile&, TableBuilder&, std::size_t level)> open;
};

KeyColumn TextKey(std::string level, std::string_view column);
// Rewrites the text of a cell; `rewrite` sees the stored text.
KeyColumn RewrittenTextKey(std::string level, std::string_view column,
                           std::function<std::string(std::string_view)> rewrite);
// Absent, null or mistyped cells give `fallback`.
KeyColumn OptionalTextKey(std::string level, std::string_view column, std::string fallback);
KeyColumn FixedTextKey(std::string level, std::string text);
KeyColumn U32Key(std::string level, std::string_view column);
KeyColumn U64Key(std::string level, std::string_view column);
KeyColumn OptionalU32Key(std::string level, std::string_view column, double fallback);
// The sum of two integer columns.
KeyColumn SumKey(std::string level, std::string_view column, std::string_view other);

// Which source list a table reads.
enum class SourceRule : std::uint8_t {
  kEachInTurn,  // every basename's whole list, basename by basename
  kTiers,       // all basenames regrouped by (channel, version)
  kFirstOnly,   // only the head of the list
  kNccl,        // the one system-wide file of the configured library version
  kOneccl,
  kFlat,  // only <backend>/<version>/<basename>
};

struct LoadContext {
  const SystemSpec& system;
  const DatabaseIdentity& identity;
};

// A rewrite of a row's leaf at load, from its key.
using LeafRule = std::function<void(std::span<const double> keys, Leaf& leaf)>;
// Does a row belong to this table?
using RowRule = std::function<bool(std::size_t row)>;

enum class Duplicates : std::uint8_t {
  kFirst,       // the earliest row in source order, then file order
  kLastInFile,  // the last row of the first source that has the coordinate
};

// Receives each row that passed the rules, its key complete; adds it to the builder or not.
using RowSink = std::function<void(std::size_t row, std::span<double> keys, Leaf& leaf)>;

// What is left to do when all files were read; may edit ranks or fail.
using FinishRule = std::function<Status(TableBuilder&)>;

// A table's own reader: called once a file, keeps state between files.
struct CustomReader {
  // `rank`: the source's index where the last duplicate of a file wins, else its planned rank.
  std::function<void(RowFile&, TableBuilder&, std::uint64_t rank)> read;
  FinishRule finish;  // may be empty
};

struct TableRecipe {
  std::vector<std::string> basenames;  // stems
  SourceRule sources = SourceRule::kEachInTurn;
  std::vector<KeyColumn> keys;
  bool latency_only = false;              // power is not read
  bool strict_power = false;              // a null or mistyped power cell is an error
  bool first_file_decides_power = false;  // without power in the first file, none is read at all
  Duplicates duplicates = Duplicates::kFirst;
  bool empty_is_fine = false;  // no rows: an empty table instead of an error
  bool uses_system = false;    // rows depend on the system's figures
  bool cacheable = true;

  std::vector<std::string_view> more_columns;  // read by the rules below
  std::function<RowRule(RowFile&)> only;       // empty: every row
  std::function<LeafRule(const LoadContext&, const TableBuilder&)> adjust;     // empty: none
  std::function<CustomReader(const LoadContext&, const TableRecipe&)> custom;  // replaces the above
};

// Walks the rows of a file as the recipe's keys and rules describe them. Stops at the first error.
void ForEachRow(const TableRecipe& recipe, RowFile& file, TableBuilder& builder,
                const RowSink& sink);

// A key whose value a custom reader fills in.
KeyColumn OpenKey(std::string level, bool is_text, std::vector<std::string_view> columns = {});

// Rank parts under which the last row of a file wins.
inline std::uint64_t LateRowsFirst(std::uint64_t source, std::size_t row) {
  return source << 32 | (0xFFFFFFFFULL - row);
}

// The description of a table.
const TableRecipe& RecipeOf(TableId id);

// One file of the plan of a load.
struct PlannedSource {
  TableSource source;
  std::size_t basename = 0;  // index into the recipe's basenames
  std::uint64_t rank = 0;    // rows of lower rank win; the reader may refine it
};

struct LoadFailure {
  Error error;
  bool corrupt = false;  // a file exists but cannot be used
};

// Reads all files of a plan; no rows at all are no failure here. The message of a failure names the
// file.
std::expected<TableParts, LoadFailure> LoadRows(const TableRecipe& recipe,
                                                std::span<const PlannedSource> plan,
                                                const LoadContext& context);

}  // namespace infercast
