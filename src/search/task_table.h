// The rows of a task, whatever its mode: one type for picking, merging, tables and files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "search/picking.h"
#include "search/search_result.h"
#include "search/task.h"
#include "serving/afd_row.h"
#include "serving/disaggregated.h"
#include "serving/encoder_stage.h"
#include "serving/replica_score.h"
#include "serving/rows.h"
#include "serving/worker.h"

namespace infercast {

struct ServingRun;

struct TaskRow {
  std::variant<AggregatedRow, DisaggregatedRow, AfdRow> figures;
  std::optional<EncoderStage> encoders;
  // Of a benchmark run in virtual time; rows without one are known by the formula only.
  std::optional<ReplicaScore> score = std::nullopt;
  std::shared_ptr<const ServingRun> run = nullptr;  // the run behind the score

  const AggregatedRow* aggregated() const { return std::get_if<AggregatedRow>(&figures); }
  const DisaggregatedRow* disaggregated() const { return std::get_if<DisaggregatedRow>(&figures); }
  const AfdRow* afd() const { return std::get_if<AfdRow>(&figures); }
};

// What picking looks at: the figures of the row's score where it has one. The group is the layout
// (of the decode workers where there are pools).
PickRow PickRowOf(const TaskRow& row);

struct TaskTable {
  std::vector<TaskRow> rows;                           // best tokens/s/GPU first
  std::vector<std::shared_ptr<const Worker>> workers;  // own what the rows point to
  // Rows that fit but meet no target, nearest first: what to say when `rows` is empty.
  std::vector<TaskRow> nearest_misses;
  std::vector<TaskRow> cut_ties;  // reference behaviour; see AggregatedSearchResult
  SearchTally tally;
  std::vector<std::string> notes;  // assumptions and substitutions a user should know of
};

}  // namespace infercast
