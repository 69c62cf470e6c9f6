// Small tables in memory for interpolation tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tables/table.h"
#include "tables/table_builder.h"

namespace infercast::testing {

struct Point {
  std::vector<double> keys;
  double latency;
  double power = 0;
};

// A table of numeric axes. Points may come in any order; their order is the order of first
// appearance, and the first of equals stays.
class SmallTable {
 public:
  SmallTable(std::size_t axes, const std::vector<Point>& points) {
    std::vector<TableBuilder::Level> levels;
    for (std::size_t a = 0; a < axes; ++a) levels.push_back({"axis" + std::to_string(a), false});
    TableBuilder builder(std::move(levels));
    for (const Point& point : points) {
      builder.Add(point.keys, {point.latency, point.power, point.power * point.latency});
    }
    parts_ = std::move(builder).Finish();
    table_.name = "small";
    for (const TableParts::Level& level : parts_.levels) {
      table_.levels.push_back({level.name, false, {}, level.keys, level.child_begin});
    }
    table_.latency = parts_.latency;
    table_.power = parts_.power;
    table_.energy = parts_.energy;
    table_.order = parts_.order;
    table_.source = parts_.source;
    table_.sources.push_back({});
  }
  SmallTable(const SmallTable&) = delete;
  SmallTable& operator=(const SmallTable&) = delete;

  const Table& table() const { return table_; }
  GridView root() const { return table_.Root(); }
  // Raises latencies below a bound, as some tables are when they are loaded.
  template <typename Bound>
  void Raise(Bound&& bound) {
    std::vector<double> keys(table_.levels.size());
    Visit(root(), keys, [&](std::span<const double> at, std::uint32_t leaf) {
      parts_.latency[leaf] = std::max(parts_.latency[leaf], bound(at));
    });
  }
  // Calls visit(keys, leaf) for every leaf in order.
  template <typename F>
  static void Visit(const GridView& view, std::vector<double>& keys, F&& visit,
                    std::size_t axis = 0) {
    for (std::uint32_t node = view.begin; node < view.end; ++node) {
      keys[axis] = view.table->levels[view.level].keys[node];
      if (view.depth() == 1) {
        visit(std::span<const double>(keys), node);
      } else {
        Visit(view.Child(node), keys, visit, axis + 1);
      }
    }
  }

 private:
  TableParts parts_;
  Table table_;
};

}  // namespace infercast::testing
