// What is reported of a deployment that a search found: one declarative list of columns per serving
// mode, from which terminal tables, CSV, JSON and every other form of the results are made.
//
// CSV names are those that users of the field already read; JSON keys are identifiers that carry
// their unit. Columns that a result does not have (an encoder pool, a load to serve) are left out
// of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/modes.h"
#include "report/table.h"
#include "search/picking.h"
#include "search/task.h"
#include "search/task_table.h"

namespace infercast {

// What the rows of one experiment have in common.
struct ResultContext {
  std::string experiment;  // its name
  ServingMode mode = ServingMode::kAggregated;
  std::int64_t total_gpus = 0;  // of the cluster; 0: none was given
  bool load = false;            // picked for a load: GPUs needed instead of GPUs given
  bool load_capped = false;     // some pick serves less than the load
  bool encoder_pool = false;
  // Time per output token over all tokens, (ttft + tpot * (osl - 1)) / osl, instead of those after
  // the first.
  bool inclusive_tpot = false;
  bool runs_beside = false;  // runs only stand beside rows that the formula answers
  DatabaseMode database_mode = DatabaseMode::kSilicon;
  Behaviour behaviour = Behaviour::kNative;
};

// A deployment with the figures of its pick. The cluster-wide ones are absent without a pick.
struct ResultRow {
  const TaskRow* row = nullptr;
  const Pick* pick = nullptr;
  std::size_t rank = 0;  // 1 is the best; 0: not ranked
  const ResultContext* context = nullptr;
};

// Copies of a deployment in the cluster, or for the load; 0 when unknown.
std::int64_t ReplicasOf(const ResultRow& row);
std::int64_t GpusPerReplica(const TaskRow& row);
// Tokens per second of all replicas together; of one when no cluster or load is known.
double ClusterTokensPerSecond(const ResultRow& row);
// "tp4 pp1 dp2 ep8": the sizes of a layout that are not 1, with tp always there.
std::string ShortLayout(const ParallelLayout& layout);
// The deployment in words: "2 x tp1 prefill (batch 1) + 1 x tp2 decode (batch 128)".
std::string DescribeDeployment(const TaskRow& row);

// The table of `rows`, which all have `context`.
ResultTable TableOf(std::span<const ResultRow> rows, const ResultContext& context);
// The table of one static batch: the columns of aggregated rows that it has, and its phases.
ResultTable TableOf(const StaticRow& row, const ResultContext& context);

}  // namespace infercast
