// The C interface: online models.
#include <span>

#include "api/c_internal.h"

using namespace infercast::v1;
using infercast::v1::internal::AtBorder;
using infercast::v1::internal::Fail;
using infercast::v1::internal::Give;
using infercast::v1::internal::NullArgument;

namespace {

OnlineOptions OptionsOf(const infercast_options* options) {
  return options != nullptr ? options->named.online() : OnlineOptions{};
}

infercast_status GiveModel(Result<OnlineModel> model, infercast_online** out) {
  if (!model) return Fail(model.error());
  *out = new infercast_online{*std::move(model)};
  return INFERCAST_OK;
}

ForwardPassMetrics RecordOf(const infercast_scheduled& r, double wall_time_s) {
  return {{r.num_prefill_requests, r.sum_prefill_tokens, r.sum_prefill_kv_tokens,
           r.num_decode_requests, r.sum_decode_kv_tokens},
          wall_time_s};
}

std::vector<ForwardPassMetrics> RecordsOf(const infercast_scheduled* ranks, const double* seconds,
                                          size_t count) {
  std::vector<ForwardPassMetrics> records;
  records.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    records.push_back(RecordOf(ranks[i], seconds != nullptr ? seconds[i] : 0));
  }
  return records;
}

infercast_table::Cell CellOf(const std::optional<double>& value) {
  return value ? infercast_table::Cell(*value) : infercast_table::Cell();
}

}  // namespace

extern "C" {

infercast_status infercast_online_from_engine(const infercast_engine* engine,
                                              const infercast_options* options,
                                              infercast_online** model) {
  if (engine == nullptr || model == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    return GiveModel(OnlineModel::FromEngine(engine->engine, OptionsOf(options)), model);
  });
}
infercast_status infercast_online_from_regression(const infercast_options* options,
                                                  infercast_online** model) {
  if (model == nullptr) return NullArgument("model");
  return AtBorder(
      [&] { return GiveModel(OnlineModel::FromRegression(OptionsOf(options)), model); });
}
infercast_status infercast_online_best_available(const char* engine_config_json,
                                                 const infercast_options* options,
                                                 infercast_online** model) {
  if (engine_config_json == nullptr || model == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    DatabaseOptions data;
    if (options != nullptr) data = options->named.model().data;
    return GiveModel(OnlineModel::BestAvailable(engine_config_json, OptionsOf(options),
                                                data.systems_paths, data.behaviour),
                     model);
  });
}
void infercast_online_free(infercast_online* model) { delete model; }

infercast_status infercast_online_estimate(const infercast_online* model,
                                           const infercast_scheduled* ranks, size_t count,
                                           double* latency_ms, int* known) {
  if (model == nullptr || (ranks == nullptr && count > 0) || latency_ms == nullptr ||
      known == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    const Result<std::optional<double>> ms =
        count == 1 ? model->model.Estimate(RecordOf(ranks[0], 0))
                   : model->model.Estimate(RecordsOf(ranks, nullptr, count));
    if (!ms) return Fail(ms.error());
    *known = ms->has_value() ? 1 : 0;
    if (ms->has_value()) *latency_ms = **ms;
    return INFERCAST_OK;
  });
}
infercast_status infercast_online_observe(infercast_online* model, const infercast_scheduled* ranks,
                                          const double* wall_time_s, size_t count) {
  if (model == nullptr || ((ranks == nullptr || wall_time_s == nullptr) && count > 0)) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    const Result<void> seen = model->model.Observe(RecordsOf(ranks, wall_time_s, count));
    return seen ? INFERCAST_OK : Fail(seen.error());
  });
}
infercast_status infercast_online_diagnostics(const infercast_online* model,
                                              infercast_table** table) {
  if (model == nullptr || table == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const OnlineDiagnostics d = model->model.Diagnostics();
    infercast_table out;
    out.Add({{"source", d.source},
             {"readiness", d.readiness},
             {"retained_observations", static_cast<double>(d.retained_observations)},
             {"correction_ready_buckets", static_cast<double>(d.correction_ready_buckets)},
             {"last_warning", d.last_warning},
             {"min_correction", CellOf(d.min_correction)},
             {"max_correction", CellOf(d.max_correction)},
             {"mean_correction", CellOf(d.mean_correction)}});
    return Give(std::move(out), table);
  });
}

}  // extern "C"
