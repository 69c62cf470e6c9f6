// Comma-separated values after RFC 4180, save that lines end with a line feed alone, as tools on
// Unix expect. Numbers are written in the shortest form that reads back as the same number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/table.h"

namespace infercast {

// A field, quoted where it holds a comma, a quote or a line break.
std::string CsvField(std::string_view text);
// One line with its end.
std::string CsvLine(const std::vector<std::string>& fields);
// Header and rows of the columns that have a name. No value is an empty field.
std::string CsvOf(const ResultTable& table);

}  // namespace infercast
