#include "report/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace infercast {

namespace {

struct Printed {
  int decimals;
  std::string operator()(std::monostate) const { return "-"; }
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:.{}f}", value, decimals); }
  std::string operator()(const std::string& text) const { return text; }
};

// Columns of a terminal that `text` takes: UTF-8 continuation bytes take none.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

struct TextColumn {
  std::string heading, unit;
  std::vector<std::string> cells;
  bool to_left = false;
  std::size_t width = 0;
};

}  // namespace

std::string TextOf(const ResultTable& table, std::size_t indent) {
  if (table.rows.empty()) return {};
  std::vector<TextColumn> shown;
  bool any_unit = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const ColumnInfo& info = table.columns[i];
    if (info.heading.empty()) continue;
    TextColumn column{std::string(info.heading), std::string(info.unit), {}, false, 0};
    bool any = false;
    for (const std::vector<Cell>& row : table.rows) {
      any = any || !std::holds_alternative<std::monostate>(row[i]);
      column.to_left = column.to_left || std::holds_alternative<std::string>(row[i]);
      column.cells.push_back(std::visit(Printed{info.decimals}, row[i]));
    }
    if (!any) continue;
    any_unit = any_unit || !column.unit.empty();
    column.width = std::max(WidthOf(column.heading), WidthOf(column.unit));
    for (const std::string& cell : column.cells) {
      column.width = std::max(column.width, WidthOf(cell));
    }
    shown.push_back(std::move(column));
  }
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string row(indent, ' ');
    for (const TextColumn& column : shown) {
      const std::string& cell = cell_of(column);
      const std::string blanks(column.width - WidthOf(cell), ' ');
      if (&column != &shown.front()) row += "  ";
      row += column.to_left ? cell + blanks : blanks + cell;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  };
  line([](const TextColumn& c) -> const std::string& { return c.heading; });
  if (any_unit) line([](const TextColumn& c) -> const std::string& { return c.unit; });
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    line([r](const TextColumn& c) -> const std::string& { return c.cells[r]; });
  }
  return text;
}

}  // namespace infercast
