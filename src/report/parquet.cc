#include "report/parquet.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "tables/column_file.h"

namespace infercast {
namespace {

enum class CellKind { kNone, kBool, kInteger, kReal, kText };

CellKind KindOf(const Cell& cell) { return static_cast<CellKind>(cell.index()); }

// The kind that holds both: integers become reals, anything else becomes text.
CellKind Wider(CellKind a, CellKind b) {
  if (a == b || b == CellKind::kNone) return a;
  if (a == CellKind::kNone) return b;
  const bool numbers = (a == CellKind::kInteger && b == CellKind::kReal) ||
                       (a == CellKind::kReal && b == CellKind::kInteger);
  return numbers ? CellKind::kReal : CellKind::kText;
}

std::string TextOfCell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{}", *real);
  return std::get<bool>(cell) ? "true" : "false";
}

template <typename T, typename Convert>
FileColumn Column(const ResultTable& table, std::size_t i, const Convert& convert) {
  std::vector<std::optional<T>> values;
  values.reserve(table.rows.size());
  for (const auto& row : table.rows) {
    if (std::holds_alternative<std::monostate>(row[i])) {
      values.emplace_back();
    } else {
      values.emplace_back(convert(row[i]));
    }
  }
  return {std::string(table.columns[i].key), std::move(values)};
}

}  // namespace

Status WriteParquet(const ResultTable& table, const std::filesystem::path& file) {
  std::vector<FileColumn> columns;
  std::set<std::string_view> used;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    // Columns that JSON does not have, or has once for two ways of showing it.
    if (table.columns[i].key.empty() || !used.insert(table.columns[i].key).second) continue;
    CellKind kind = CellKind::kNone;
    for (const auto& row : table.rows) kind = Wider(kind, KindOf(row[i]));
    switch (kind) {
      case CellKind::kBool:
        columns.push_back(Column<bool>(table, i, [](const Cell& c) { return std::get<bool>(c); }));
        break;
      case CellKind::kInteger:
        columns.push_back(Column<std::int64_t>(
            table, i, [](const Cell& c) { return std::get<std::int64_t>(c); }));
        break;
      case CellKind::kReal:
        columns.push_back(Column<double>(table, i, [](const Cell& c) {
          const auto* whole = std::get_if<std::int64_t>(&c);
          return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(c);
        }));
        break;
      case CellKind::kNone:
      case CellKind::kText:
        columns.push_back(Column<std::string>(table, i, TextOfCell));
        break;
    }
  }
  return WriteColumnFile(columns, file);
}

}  // namespace infercast
