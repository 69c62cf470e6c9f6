// The C interface: forecasts of deployments as tables.
#include "api/c_internal.h"

using namespace infercast::v1;
using infercast::v1::internal::AtBorder;
using infercast::v1::internal::Fail;
using infercast::v1::internal::Give;
using infercast::v1::internal::NullArgument;

namespace {

using Cell = infercast_table::Cell;
using Cells = std::vector<std::pair<std::string, Cell>>;

Cell CellOf(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }
Cell CellOf(std::int64_t value) { return static_cast<double>(value); }
Cell CellOf(const std::optional<std::int64_t>& value) {
  return value ? Cell(static_cast<double>(*value)) : Cell();
}

Cells CellsOf(const FormulaFigures& f) {
  return {{"formula_ttft_ms", f.ttft_ms},
          {"formula_tpot_ms", f.tpot_ms},
          {"formula_request_latency_ms", f.request_latency_ms},
          {"formula_tokens_per_s", f.tokens_per_s},
          {"formula_tokens_per_s_per_gpu", f.tokens_per_s_per_gpu},
          {"formula_tokens_per_s_per_user", f.tokens_per_s_per_user},
          {"formula_requests_per_s", f.requests_per_s},
          {"formula_concurrency", f.concurrency}};
}

Cells CellsOf(const ServingForecast& f) {
  return {{"serving_concurrency", CellOf(f.concurrency)},
          {"serving_rate", CellOf(f.rate)},
          {"serving_requests", CellOf(f.requests)},
          {"serving_shortest", f.shortest},
          {"serving_seed", static_cast<double>(f.seed)},
          {"serving_ttft_ms_mean", f.ttft_ms.mean},
          {"serving_ttft_ms_median", f.ttft_ms.median},
          {"serving_ttft_ms_p90", f.ttft_ms.p90},
          {"serving_ttft_ms_p99", f.ttft_ms.p99},
          {"serving_tpot_ms_mean", f.tpot_ms.mean},
          {"serving_tpot_ms_median", f.tpot_ms.median},
          {"serving_tpot_ms_p90", f.tpot_ms.p90},
          {"serving_tpot_ms_p99", f.tpot_ms.p99},
          {"serving_ttft_interval_ms_low", f.ttft_interval_ms.low},
          {"serving_ttft_interval_ms_high", f.ttft_interval_ms.high},
          {"serving_tpot_interval_ms_low", f.tpot_interval_ms.low},
          {"serving_tpot_interval_ms_high", f.tpot_interval_ms.high},
          {"serving_ttft_parts_ms_front_end", f.ttft_parts_ms.front_end},
          {"serving_ttft_parts_ms_polling", f.ttft_parts_ms.polling},
          {"serving_ttft_parts_ms_queue", f.ttft_parts_ms.queue},
          {"serving_ttft_parts_ms_prefill", f.ttft_parts_ms.prefill},
          {"serving_ttft_parts_ms_transfer", f.ttft_parts_ms.transfer},
          {"serving_requests_per_s", f.requests_per_s},
          {"serving_output_tokens_per_s", f.output_tokens_per_s},
          {"serving_request_latency_ms", f.request_latency_ms},
          {"serving_mean_running", f.mean_running},
          {"serving_context_step_share", f.context_step_share},
          {"serving_peak_kv_share", f.peak_kv_share}};
}

Cells CellsOf(const Forecast& f) {
  Cells cells = {{"mode", f.mode},
                 {"isl", CellOf(f.isl)},
                 {"osl", CellOf(f.osl)},
                 {"prefix", CellOf(f.prefix)},
                 {"scored_by", f.scored_by},
                 {"ttft_ms", f.ttft_ms},
                 {"tpot_ms", f.tpot_ms},
                 {"request_latency_ms", f.request_latency_ms},
                 {"tokens_per_s", f.tokens_per_s},
                 {"tokens_per_s_per_gpu", f.tokens_per_s_per_gpu},
                 {"tokens_per_s_per_user", f.tokens_per_s_per_user},
                 {"requests_per_s", f.requests_per_s},
                 {"concurrency", f.concurrency},
                 {"num_gpus", CellOf(f.num_gpus)},
                 {"encoder_latency_ms", f.encoder_latency_ms},
                 {"context_latency_ms", f.context_latency_ms},
                 {"generation_latency_ms", f.generation_latency_ms},
                 {"power_w", CellOf(f.power_w)},
                 {"fits", f.fits ? 1.0 : 0.0},
                 {"tokens_per_s_per_gpu_cluster", CellOf(f.tokens_per_s_per_gpu_cluster)},
                 {"replicas", CellOf(f.replicas)},
                 {"total_gpus", CellOf(f.total_gpus)},
                 {"load_served_percent", CellOf(f.load_served_percent)}};
  for (const WorkerForecast& w : f.workers) {
    const std::string prefix = w.role == "worker" ? std::string() : w.role + "_";
    cells.insert(cells.end(), {{prefix + "system", w.system},
                               {prefix + "backend", w.backend},
                               {prefix + "backend_version", w.version},
                               {prefix + "parallel", w.parallel},
                               {prefix + "workers", CellOf(w.workers)},
                               {prefix + "gpus", CellOf(w.gpus)},
                               {prefix + "batch_size", CellOf(w.batch_size)},
                               {prefix + "memory_gib", w.memory_gib},
                               {prefix + "weights_gib", w.weights_gib},
                               {prefix + "activations_gib", w.activations_gib},
                               {prefix + "kvcache_gib", w.kvcache_gib}});
  }
  const Cells formula = CellsOf(f.formula);
  cells.insert(cells.end(), formula.begin(), formula.end());
  if (f.serving) {
    const Cells run = CellsOf(*f.serving);
    cells.insert(cells.end(), run.begin(), run.end());
  }
  return cells;
}

void AddExperiment(infercast_table& table, const SearchExperiment& experiment) {
  for (std::size_t i = 0; i < experiment.best.size(); ++i) {
    Cells cells = {{"experiment", experiment.name}, {"rank", static_cast<double>(i + 1)}};
    const Cells figures = CellsOf(experiment.best[i]);
    cells.insert(cells.end(), figures.begin(), figures.end());
    table.Add(cells);
  }
}

infercast_status GiveResult(const Result<SearchResult>& found, infercast_table** table) {
  if (!found) return Fail(found.error());
  infercast_table out;
  AddExperiment(out, found->Best());
  for (const SearchExperiment& experiment : found->experiments) {
    if (experiment.name != found->Best().name) AddExperiment(out, experiment);
  }
  return Give(std::move(out), table);
}

}  // namespace

extern "C" {

infercast_status infercast_estimate(const infercast_options* options, infercast_table** table) {
  if (options == nullptr || table == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<Forecast> forecast = Estimate(options->named.estimate());
    if (!forecast) return Fail(forecast.error());
    infercast_table out;
    out.Add(CellsOf(*forecast));
    return Give(std::move(out), table);
  });
}

infercast_status infercast_sweep(const infercast_options* options, infercast_table** table) {
  if (options == nullptr || table == nullptr) return NullArgument("an argument");
  return AtBorder([&] { return GiveResult(Sweep(options->named.sweep()), table); });
}

infercast_status infercast_recommend(const infercast_options* options, infercast_table** table) {
  if (options == nullptr || table == nullptr) return NullArgument("an argument");
  return AtBorder([&] { return GiveResult(Recommend(options->named.recommend()), table); });
}

}  // extern "C"
