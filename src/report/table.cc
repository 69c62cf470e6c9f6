#include "report/table.h"

#include <algorithm>
#include <cmath>

namespace infercast {

Cell RealCell(double value) {
  if (!std::isfinite(value)) return std::monostate{};
  return value;
}

ResultTable Concatenate(const std::vector<ResultTable>& parts) {
  ResultTable all;
  std::vector<std::vector<std::size_t>> positions;  // of each part's columns in `all`
  for (const ResultTable& part : parts) {
    std::vector<std::size_t>& position = positions.emplace_back();
    // Columns that are new here go behind the one they follow, so that related ones stay together.
    std::size_t next = 0;
    for (const ColumnInfo& column : part.columns) {
      auto known = std::find_if(all.columns.begin(), all.columns.end(), [&](const ColumnInfo& c) {
        return c.name == column.name && c.heading == column.heading;
      });
      if (known == all.columns.end()) {
        known = all.columns.insert(all.columns.begin() + static_cast<std::ptrdiff_t>(next), column);
        const auto at = static_cast<std::size_t>(known - all.columns.begin());
        for (std::vector<std::size_t>& earlier : positions) {
          for (std::size_t& p : earlier) p += p >= at ? 1 : 0;
        }
      }
      const auto at = static_cast<std::size_t>(known - all.columns.begin());
      position.push_back(at);
      next = at + 1;
    }
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const std::vector<Cell>& row : parts[p].rows) {
      std::vector<Cell>& out = all.rows.emplace_back(all.columns.size());
      for (std::size_t i = 0; i < row.size(); ++i) out[positions[p][i]] = row[i];
    }
  }
  return all;
}

}  // namespace infercast
