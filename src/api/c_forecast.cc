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

Cells CellsOf(const Forecast& f) {
  Cells cells = {{"mode", f.mode},
                 {"isl", CellOf(f.isl)},
                 {"osl", CellOf(f.osl)},
                 {"prefix", CellOf(f.prefix)},
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
