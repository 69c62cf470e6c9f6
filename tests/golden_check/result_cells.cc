// The columns of the report, less those that the reference's tables do not have.
#include "golden_check/result_cells.h"

#include <algorithm>

#include "report/result_columns.h"

namespace infercast::golden {

namespace {

constexpr std::string_view kOurs[] = {"rank", "experiment", "replicas", "database_mode",
                                      "behaviour"};

ResultContext ContextOf(const TaskRow& row) {
  ResultContext context;
  context.mode = row.aggregated() != nullptr      ? ServingMode::kAggregated
                 : row.disaggregated() != nullptr ? ServingMode::kDisaggregated
                                                  : ServingMode::kAfd;
  context.encoder_pool = row.encoders.has_value();
  context.behaviour = Behaviour::kReference;
  return context;
}

std::vector<NamedCell> CellsOf(ResultTable table) {
  std::vector<NamedCell> cells;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string_view name = table.columns[i].name;
    if (name.empty() || std::ranges::find(kOurs, name) != std::end(kOurs)) continue;
    cells.push_back({name, std::move(table.rows.at(0)[i])});
  }
  return cells;
}

}  // namespace

std::vector<NamedCell> CellsOf(const StaticRow& row) {
  ResultContext context;
  context.behaviour = Behaviour::kReference;
  return CellsOf(TableOf(row, context));
}

std::vector<NamedCell> CellsOf(const TaskRow& row) {
  const ResultContext context = ContextOf(row);
  const ResultRow result{&row, nullptr, 0, &context};
  return CellsOf(TableOf({&result, 1}, context));
}

std::vector<NamedCell> CellsOf(const PickedRow& row, bool load) {
  ResultContext context = ContextOf(row.row);
  context.load = load;
  context.load_capped = row.pick.load_served_percent.has_value();
  const ResultRow result{&row.row, &row.pick, 0, &context};
  std::vector<NamedCell> cells = CellsOf(TableOf({&result, 1}, context));
  // Merged tables of pools name the backend.
  if (row.backend && row.row.disaggregated() != nullptr) {
    cells.push_back({"backend", std::string(ToString(*row.backend))});
  }
  return cells;
}

}  // namespace infercast::golden
