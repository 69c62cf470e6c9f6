#include "report/csv.h"

#include <fmt/format.h>

#include <vector>

namespace infercast {

namespace {

struct FieldOf {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& text) const { return text; }
};

}  // namespace

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += CsvField(fields[i]);
  }
  return line + '\n';
}

std::string CsvOf(const ResultTable& table) {
  std::vector<std::string> fields;
  for (const ColumnInfo& column : table.columns) {
    if (!column.name.empty()) fields.emplace_back(column.name);
  }
  std::string text = CsvLine(fields);
  for (const std::vector<Cell>& row : table.rows) {
    fields.clear();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!table.columns[i].name.empty()) fields.push_back(std::visit(FieldOf{}, row[i]));
    }
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace infercast
