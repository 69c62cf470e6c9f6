// What a search found, as a terminal report, as JSON and as CSV: the best deployments of each
// experiment, which one is best of all and why, what stood in the way of those that gave none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/modes.h"
#include "report/result_columns.h"
#include "report/table.h"
#include "search/experiments.h"

namespace infercast {

struct SearchReportOptions {
  std::optional<LoadTarget> load;  // what the search was sized for, if for a load
  bool inclusive_tpot = false;
  Behaviour behaviour = Behaviour::kNative;
  std::vector<std::string> notes;  // of the run as a whole
};

// Which rows a CSV or a JSON document holds.
enum class ReportRows : std::uint8_t { kBest, kFront, kAll };
template <>
struct EnumNames<ReportRows> {
  static constexpr std::string_view kType = "choice of rows";
  static constexpr std::array<std::string_view, 3> kNames = {"best", "front", "all"};
};

std::string SearchText(const ExperimentsResult& result, const SearchReportOptions& options);

// One document:
//   {"behaviour", "chosen", "meets_target", "load": {...},
//    "experiments": [{"name", "mode", "best_value", "meets_target", "best": [ROW], "front":
//    [ROW]}], "outcomes": [{"name", "mode", "backend", "error": null | {"kind", "message"},
//                  "rows", "points": {"evaluated", "not_measured", "out_of_memory", ...},
//                  "notes", "nearest_misses": [ROW + "misses": [text]], "all": [ROW]}],
//    "notes"}
// ROW has the keys of report/result_columns.cc; null is "no value". "all" only with kAll.
std::string SearchJson(const ExperimentsResult& result, const SearchReportOptions& options,
                       ReportRows rows);

// The rows of all experiments in one table, columns united.
ResultTable SearchTable(const ExperimentsResult& result, const SearchReportOptions& options,
                        ReportRows rows);

// Which targets of `task` a row misses: "TTFT 2512.3 ms > 2000 ms". Empty: it meets them.
std::vector<std::string> MissedTargets(const TaskRow& row, const Task& task);

// Whether any experiment has a row that meets its targets.
bool AnyMeetsTarget(const ExperimentsResult& result);

}  // namespace infercast
