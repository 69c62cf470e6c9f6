// The second look of a search: what the closed formula proposes is run as a benchmark in virtual
// time, and picked again by what came out.
//
// Method: formulas are cheap enough for every point of a search, runs are not. Run are, for each
// layout that may be shown, the row that the formula picks and, while it misses a target, rows of
// the same layout with less throughput (in steps that double, then by halving), or more throughput
// while the targets are met; then the rows of the formula's Pareto front, smallest load first. The
// formula's picks are always run. What is run beside them is bounded by about the work of the
// formula's search, counted in candidates, shared evenly between the layouts; what they leave is
// for the front. Layouts are independent of each other, so the outcome does not depend on the
// number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/error.h"
#include "search/picking.h"
#include "search/score.h"
#include "search/task_resolution.h"
#include "search/task_table.h"

namespace infercast {

// Picks at most `top_n` of `rows`: for a cluster, for a load. The front does not depend on `top_n`.
using RowPicker = std::function<Result<PickResult>(
    std::span<const PickRow> rows, const Constraint& constraint, std::size_t top_n)>;

// `rows`: the formula's figures of the table. Scores rows of `table` (their `score`) and replaces
// `pick` by one among them. Targets are the task's: first token and time per token, or request
// latency. Where no row can be run (attention/ feed-forward disaggregation, images, whole forward
// passes) everything stays as it is, and a note of the table says so. Errors of the picker.
Status Rescore(const ResolvedTask& task, const Constraint& constraint, std::size_t top_n,
               const RowPicker& picker, std::span<const PickRow> rows, TaskTable& table,
               PickResult& pick);

}  // namespace infercast
