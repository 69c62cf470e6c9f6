// Comma-separated values: quotes, doubled quotes, line ends of either kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace infercast {

// Lines of cells. Blank lines are dropped; a byte order mark is skipped.
struct CsvLine {
  std::size_t number = 0;  // of its first text line, from 1
  std::vector<std::string> cells;
};
std::vector<CsvLine> ParseCsv(std::string_view text);

// A cell quoted where it must be.
std::string CsvCell(std::string_view text);

}  // namespace infercast
