// Aligned tables for a terminal: text to the left, numbers to the right.
#pragma once

#include <string>

#include "report/table.h"

namespace infercast {

// The columns that have a heading; units stand in a second header line. Columns without any value
// are left out. Every line starts with `indent` spaces and ends without blanks. "" for no rows.
std::string TextOf(const ResultTable& table, std::size_t indent = 2);

}  // namespace infercast
