// Result tables by column: every row of a search, of an estimate or of a pick as named cells, in
// the order in which they are written to files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/experiments.h"
#include "search/task_table.h"
#include "serving/rows.h"

namespace infercast {

// Nothing (shown empty), truth, integer, number, text.
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

struct NamedCell {
  std::string_view name;  // static
  Cell cell;
};

// Units: latencies ms, rates per second, memory GiB, power W per GPU.
std::vector<NamedCell> ColumnsOf(const StaticRow& row);
std::vector<NamedCell> ColumnsOf(const TaskRow& row);
// The row's columns, then those that picking added. `load`: sized for a load.
std::vector<NamedCell> ColumnsOf(const PickedRow& row, bool load);

}  // namespace infercast
