// One row of a task, as estimates with an encoder pool ask for it.
#include "golden_check/app_cases.h"
#include "search/experiment_file.h"
#include "search/run_task.h"

namespace infercast::golden {

namespace {

using Json = nlohmann::json;

ParallelLayout LayoutOf(const Json& point, const std::string& prefix) {
  ParallelLayout layout;
  layout.moe_tp = 1;
  layout.moe_ep = 1;
  SetFrom(point, (prefix + "tp").c_str(), layout.tp);
  SetFrom(point, (prefix + "pp").c_str(), layout.pp);
  SetFrom(point, (prefix + "dp").c_str(), layout.dp);
  SetFrom(point, (prefix + "cp").c_str(), layout.cp);
  SetFrom(point, (prefix + "moe_tp").c_str(), layout.moe_tp);
  SetFrom(point, (prefix + "moe_ep").c_str(), layout.moe_ep);
  return layout;
}

EncoderPoint EncoderOf(const Json& point) {
  EncoderPoint encoder;
  SetFrom(point, "encoder_tp", encoder.tp);
  SetFrom(point, "encoder_batch_size", encoder.batch);
  SetFrom(point, "encoder_num_workers", encoder.workers);
  return encoder;
}

PoolPoint PoolOf(const Json& point, const std::string& prefix) {
  PoolPoint pool;
  pool.layout = LayoutOf(point, prefix);
  SetFrom(point, (prefix + "batch_size").c_str(), pool.batch);
  SetFrom(point, (prefix + "num_workers").c_str(), pool.workers);
  return pool;
}

Result<TaskPoint> Evaluate(const Json& document, Workbench& bench) {
  const Json& point = document.at("args").at("point");
  IC_ASSIGN(Task task, ParseTask(document.at("args").at("task").dump()));
  task.behaviour = Environment::kBehaviour;
  IC_ASSIGN(const ResolvedTask resolved, ResolveTask(task, bench));
  IC_RETURN_IF_ERROR(ValidateTask(resolved));
  if (document.at("kind") == "single_disagg") {
    return EvaluateDisaggregatedPoint(
        resolved, {PoolOf(point, "prefill_"), PoolOf(point, "decode_"), EncoderOf(point)}, bench);
  }
  AggregatedPoint aggregated;
  aggregated.layout = LayoutOf(point, "");
  SetFrom(point, "batch_size", aggregated.batch);
  SetFrom(point, "ctx_tokens", aggregated.ctx_tokens);
  aggregated.encoder = EncoderOf(point);
  return EvaluateAggregatedPoint(resolved, aggregated, bench);
}

}  // namespace

void RunAppPoint(const Json& document, const AppData& data, Comparer& compare) {
  Workbench bench(data.systems, data.checkpoints);
  const Result<TaskPoint> point = Evaluate(document, bench);
  std::optional<Error> error;
  if (!point) error = point.error();
  if (CheckExpectedError(document, error, compare)) return;
  const TableRounding rounding =
      point->row.disaggregated() != nullptr ? TableRounding::kSearch : TableRounding::kNone;
  CompareRow("row", document.at("result").at("row"), CellsOf(point->row), rounding, false, {},
             compare);
}

}  // namespace infercast::golden
