// Rows as the program writes them to CSV, for comparison with the reference's tables.
#pragma once

#include <string_view>
#include <vector>

#include "report/table.h"
#include "search/experiments.h"
#include "serving/rows.h"

namespace infercast::golden {

struct NamedCell {
  std::string_view name;  // static
  Cell cell;
};

std::vector<NamedCell> CellsOf(const StaticRow& row);
std::vector<NamedCell> CellsOf(const TaskRow& row);
// `load`: sized for a load.
std::vector<NamedCell> CellsOf(const PickedRow& row, bool load);

}  // namespace infercast::golden
