// Each pool by itself: filter by its target, best rate per GPU, one row for each layout.
#include "search/autoscale.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "search/order.h"
#include "search/pool_rows.h"
#include "search/run_task.h"

namespace infercast {

namespace {

using Latency = double WorkerRow::*;

// The best rows of a pool, one for each layout.
std::vector<StaticRow> BestOfPool(std::vector<StaticRow> rows, Latency latency, double target,
                                  Behaviour behaviour, std::size_t top_n, const char* what,
                                  std::vector<std::string>& notes) {
  const auto meets = [&](const StaticRow& row) {
    return PoolMeets(row.*latency, target, behaviour);
  };
  const auto by_rate = [](const StaticRow& a, const StaticRow& b) {
    if (a.seq_s_gpu != b.seq_s_gpu) return a.seq_s_gpu > b.seq_s_gpu;
    return a.global_bs < b.global_bs;
  };
  if (std::ranges::any_of(rows, meets)) {
    std::erase_if(rows, [&](const StaticRow& row) { return !meets(row); });
    std::stable_sort(rows.begin(), rows.end(), by_rate);
  } else {
    std::stable_sort(rows.begin(), rows.end(), [&](const StaticRow& a, const StaticRow& b) {
      return a.*latency != b.*latency ? a.*latency < b.*latency : by_rate(a, b);
    });
    notes.push_back(fmt::format("no {} worker meets its target of {:g} ms; the nearest are shown",
                                what, target));
  }
  std::vector<StaticRow> best;
  std::set<std::string> layouts;
  for (StaticRow& row : rows) {
    if (best.size() == top_n) break;
    if (layouts.insert(row.worker->parallel).second) best.push_back(row);
  }
  return best;
}

}  // namespace

Result<TaskTable> RunAutoscale(const ResolvedTask& resolved, const AutoscaleOptions& options) {
  const Task& task = resolved.task;
  if (task.mode != ServingMode::kDisaggregated || task.epd.enabled) {
    return Fail(ErrorKind::kInvalidArgument,
                "only disaggregated tasks without an encoder pool scale their pools separately");
  }
  IC_RETURN_IF_ERROR(ValidateTask(resolved));
  const bool reference = task.behaviour == Behaviour::kReference;
  const DisaggregatedSearchOptions search = DisaggregatedOptionsOf(resolved);
  const ResolvedRole& prefill_role = resolved.primary();
  const ResolvedRole& decode_role = resolved.decode();
  auto [prefill, decode] =
      EvaluatePools(prefill_role.layouts, prefill_role.workers->Source(), decode_role.layouts,
                    decode_role.workers->Source(), task.workload, search, task.behaviour);
  TaskTable table;
  table.notes = resolved.notes;
  table.tally = prefill.tally;
  table.tally.Merge(decode.tally);
  for (PoolRows* pool : {&prefill, &decode}) {
    table.workers.insert(table.workers.end(), pool->workers.begin(), pool->workers.end());
  }
  if (prefill.rows.empty()) {
    return std::unexpected(NothingFound(prefill.tally, "prefill workers", task.behaviour));
  }
  if (decode.rows.empty()) {
    return std::unexpected(NothingFound(decode.tally, "decode workers", task.behaviour));
  }
  for (StaticRow& row : prefill.rows) row.ttft *= search.factors.ttft_queueing;
  double tpot = options.tpot.value_or(task.tpot);
  if (reference && !options.tpot && task.pareto_sweep) tpot = TpotSweep().back();
  const auto prefills = BestOfPool(std::move(prefill.rows), &WorkerRow::ttft, task.ttft,
                                   task.behaviour, options.top_n, "prefill", table.notes);
  const auto decodes = BestOfPool(std::move(decode.rows), &WorkerRow::tpot, tpot, task.behaviour,
                                  options.top_n, "decode", table.notes);
  std::vector<DisaggregatedRow> rows;
  for (const StaticRow& p : prefills) {
    for (const StaticRow& d : decodes) {
      const bool fits_together =
          reference || !search.compatible || search.compatible(p.worker->layout, d.worker->layout);
      if (!fits_together) continue;
      rows.push_back(ComposeDisaggregated(p, d, 1, 1, search.factors));
      if (reference) RoundColumns(rows.back());
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const DisaggregatedRow& a, const DisaggregatedRow& b) {
                     if (a.tokens_s_gpu != b.tokens_s_gpu) return a.tokens_s_gpu > b.tokens_s_gpu;
                     return !reference && BetterAmongEquals(a, b);
                   });
  if (rows.size() > options.top_n) rows.resize(options.top_n);
  for (const DisaggregatedRow& row : rows) table.rows.push_back({row, std::nullopt});
  return table;
}

}  // namespace infercast
