#include "validation/csv.h"

namespace infercast {

std::vector<CsvLine> ParseCsv(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<CsvLine> lines;
  CsvLine line;
  std::string cell;
  std::size_t number = 1;
  bool quoted = false, started = false;
  const auto end_cell = [&] {
    line.cells.push_back(std::move(cell));
    cell.clear();
  };
  const auto end_line = [&] {
    if (!started) return;
    end_cell();
    lines.push_back(std::move(line));
    line = {};
    started = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\n') ++number;
      if (c != '"') {
        cell += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += '"';
        ++i;
      } else {
        quoted = false;
      }
      continue;
    }
    if (c == '\n' || c == '\r') {
      end_line();
      if (c == '\n') ++number;
      continue;
    }
    if (!started) line.number = number;
    started = true;
    if (c == ',') {
      end_cell();
    } else if (c == '"' && cell.empty()) {
      quoted = true;
    } else {
      cell += c;
    }
  }
  end_line();
  return lines;
}

std::string CsvCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace infercast
