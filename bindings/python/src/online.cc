// Online models.
#include "binding.h"

namespace infercast::python {

namespace {

// Ranks of one iteration: a ForwardPassMetrics or a list of them.
std::vector<ForwardPassMetrics> RanksOf(const nb::handle& ranks) {
  if (nb::isinstance<ForwardPassMetrics>(ranks)) return {nb::cast<ForwardPassMetrics>(ranks)};
  return nb::cast<std::vector<ForwardPassMetrics>>(ranks);
}

}  // namespace

void BindOnline(nb::module_& m) {
  Record<OnlineDiagnostics>(m, "OnlineDiagnostics", "State of an online model.")
      .Field("source", &OnlineDiagnostics::source,
             "aic (engine), aic_with_correction or fallback_regression.")
      .Field("readiness", &OnlineDiagnostics::readiness,
             "ready, insufficient_data or unsupported_config.")
      .Field("retained_observations", &OnlineDiagnostics::retained_observations,
             "Observations kept.")
      .Field("correction_ready_buckets", &OnlineDiagnostics::correction_ready_buckets,
             "Buckets of the operating range with a correction.")
      .Field("last_warning", &OnlineDiagnostics::last_warning, "Why there is no engine, or empty.")
      .Field("min_correction", &OnlineDiagnostics::min_correction, "Smallest factor in use.")
      .Field("max_correction", &OnlineDiagnostics::max_correction, "Largest factor in use.")
      .Field("mean_correction", &OnlineDiagnostics::mean_correction, "Mean factor in use.");

  nb::class_<ForwardPassMetrics>(m, "ForwardPassMetrics",
                                 "One rank's record of one iteration.\n\n"
                                 "wall_time_s: seconds it took; 0: not measured.")
      .def(
          "__init__",
          [](ForwardPassMetrics* self, std::uint32_t num_prefill_requests,
             std::uint32_t sum_prefill_tokens, std::uint32_t sum_prefill_kv_tokens,
             std::uint32_t num_decode_requests, std::uint32_t sum_decode_kv_tokens,
             double wall_time_s) {
            new (self)
                ForwardPassMetrics{{num_prefill_requests, sum_prefill_tokens, sum_prefill_kv_tokens,
                                    num_decode_requests, sum_decode_kv_tokens},
                                   wall_time_s};
          },
          nb::kw_only(), "num_prefill_requests"_a = 0, "sum_prefill_tokens"_a = 0,
          "sum_prefill_kv_tokens"_a = 0, "num_decode_requests"_a = 0, "sum_decode_kv_tokens"_a = 0,
          "wall_time_s"_a = 0.0)
      .def_rw("wall_time_s", &ForwardPassMetrics::wall_time_s, "Seconds.")
      .def_prop_ro("num_prefill_requests",
                   [](const ForwardPassMetrics& f) { return f.scheduled.num_prefill_requests; })
      .def_prop_ro("sum_prefill_tokens",
                   [](const ForwardPassMetrics& f) { return f.scheduled.sum_prefill_tokens; })
      .def_prop_ro("sum_prefill_kv_tokens",
                   [](const ForwardPassMetrics& f) { return f.scheduled.sum_prefill_kv_tokens; })
      .def_prop_ro("num_decode_requests",
                   [](const ForwardPassMetrics& f) { return f.scheduled.num_decode_requests; })
      .def_prop_ro("sum_decode_kv_tokens",
                   [](const ForwardPassMetrics& f) { return f.scheduled.sum_decode_kv_tokens; });
  m.def(
      "parse_metrics", [](const std::string& json) { return OrRaise(ParseMetrics(json)); },
      "json"_a, "Iterations from telemetry JSON: a list of lists of ForwardPassMetrics.");

  nb::class_<OnlineModel>(
      m, "OnlineModel",
      "A forward-pass model that learns while serving. One thread at a time.\n\n"
      "Settings: max_observations, min_observations, bucket_count,\n"
      "min_faster_correction_factor, max_slower_correction_factor,\n"
      "max_batched_tokens, max_batch_size, max_kv_tokens.")
      .def_static(
          "from_engine",
          [](const Engine& engine, const nb::kwargs& settings) {
            return OrRaise(OnlineModel::FromEngine(engine, OptionsOf(settings).online()));
          },
          "engine"_a, "settings"_a, "An engine's estimates, corrected by what is observed.")
      .def_static(
          "from_regression",
          [](const nb::kwargs& settings) {
            return OrRaise(OnlineModel::FromRegression(OptionsOf(settings).online()));
          },
          "settings"_a, "A regression on the observations alone.")
      .def_static(
          "best_available",
          [](const std::string& config, const nb::kwargs& settings) {
            const NamedOptions options = OptionsOf(settings);
            return OrRaise(OnlineModel::BestAvailable(config, options.online(),
                                                      options.model().data.systems_paths,
                                                      options.model().data.behaviour));
          },
          "engine_config_json"_a, "settings"_a,
          "From an engine's identity as JSON: an engine, or a regression where there is none.")
      .def(
          "estimate",
          [](const OnlineModel& model, nb::handle ranks) {
            if (nb::isinstance<ForwardPassMetrics>(ranks)) {
              return OrRaise(model.Estimate(nb::cast<const ForwardPassMetrics&>(ranks)));
            }
            return OrRaise(model.Estimate(RanksOf(ranks)));
          },
          "ranks"_a, "Milliseconds of an iteration (one record a rank); None: not known yet.")
      .def(
          "observe",
          [](OnlineModel& model, nb::handle ranks) { OrRaise(model.Observe(RanksOf(ranks))); },
          "ranks"_a, "Learns from one iteration (one record a rank, with wall_time_s).")
      .def("diagnostics", &OnlineModel::Diagnostics, "Source, readiness and corrections.");
}

}  // namespace infercast::python
