// Forecasts of deployments.
#include "binding.h"

namespace infercast::python {

namespace {

template <typename T>
nb::object Frame(const char* function, const T& self) {
  return nb::module_::import_("infercast._records").attr(function)(nb::cast(self));
}

}  // namespace

void BindForecast(nb::module_& m) {
  Record<Parallelism>(m, "Parallelism", "How one worker is spread over GPUs.")
      .Field("tp", &Parallelism::tp, "Tensor parallelism.")
      .Field("pp", &Parallelism::pp, "Pipeline parallelism.")
      .Field("dp", &Parallelism::dp, "Attention data parallelism.")
      .Field("cp", &Parallelism::cp, "Context parallelism.")
      .Field("moe_tp", &Parallelism::moe_tp, "Tensor parallelism of the experts.")
      .Field("moe_ep", &Parallelism::moe_ep, "Expert parallelism.");
  Record<NumberFormats>(m, "NumberFormats", "Number formats of a model.")
      .Field("gemm", &NumberFormats::gemm, "Dense products.")
      .Field("moe", &NumberFormats::moe, "Experts.")
      .Field("kvcache", &NumberFormats::kvcache, "KV cache.")
      .Field("fmha", &NumberFormats::fmha, "Prefill attention.")
      .Field("comm", &NumberFormats::comm, "Communication.");
  Record<WorkerForecast>(m, "WorkerForecast", "One kind of worker of a deployment.")
      .Field("role", &WorkerForecast::role, "worker, prefill, decode, attention, ffn, encoder.")
      .Field("model", &WorkerForecast::model, "Model.")
      .Field("system", &WorkerForecast::system, "GPU system.")
      .Field("backend", &WorkerForecast::backend, "Serving backend.")
      .Field("version", &WorkerForecast::version, "Backend version.")
      .Field("parallelism", &WorkerForecast::parallelism, "Sizes of the layout.")
      .Field("parallel", &WorkerForecast::parallel, "The layout as text.")
      .Field("workers", &WorkerForecast::workers, "How many of them.")
      .Field("gpus", &WorkerForecast::gpus, "GPUs of one.")
      .Field("batch_size", &WorkerForecast::batch_size, "Requests per data-parallel rank.")
      .Field("formats", &WorkerForecast::formats, "Number formats.")
      .Field("memory_gib", &WorkerForecast::memory_gib, "Memory of one GPU (GiB).")
      .Field("weights_gib", &WorkerForecast::weights_gib, "Weights (GiB).")
      .Field("activations_gib", &WorkerForecast::activations_gib, "Activations (GiB).")
      .Field("kvcache_gib", &WorkerForecast::kvcache_gib, "KV cache (GiB).");
  Record<PhaseCost>(m, "PhaseCost", "A part of a forecast with its operators.")
      .Field("name", &PhaseCost::name, "mix_step, genonly_step, prefill, decode, encoder ...")
      .Field("operators", &PhaseCost::operators, "A list of OperatorCost.");
  Record<Distribution>(m, "Distribution", "Over the requests of a run (ms).")
      .Field("mean", &Distribution::mean, "Mean.")
      .Field("median", &Distribution::median, "Median.")
      .Field("p90", &Distribution::p90, "90th percentile.")
      .Field("p99", &Distribution::p99, "99th percentile.");
  Record<Interval>(m, "Interval", "In which measurements of such means have lain (ms).")
      .Field("low", &Interval::low, "10 % point.")
      .Field("high", &Interval::high, "90 % point.");
  Record<FirstTokenParts>(m, "FirstTokenParts", "Means that add up to the mean TTFT (ms).")
      .Field("front_end", &FirstTokenParts::front_end, "Client, transport, tokeniser, way back.")
      .Field("polling", &FirstTokenParts::polling, "Received, not yet seen by the scheduler.")
      .Field("queue", &FirstTokenParts::queue, "Seen, waiting for its first step.")
      .Field("prefill", &FirstTokenParts::prefill, "From its first step to its first token.")
      .Field("transfer", &FirstTokenParts::transfer, "KV cache on its way (disaggregated).");
  Record<ServingForecast>(m, "ServingForecast", "A benchmark run in virtual time.")
      .Field("concurrency", &ServingForecast::concurrency, "Requests in flight, or")
      .Field("rate", &ServingForecast::rate, "open arrivals, requests per second.")
      .Field("requests", &ServingForecast::requests, "Requests of the run.")
      .Field("shortest", &ServingForecast::shortest, "Lengths are from this share on.")
      .Field("seed", &ServingForecast::seed, "Seed of lengths and arrivals.")
      .Field("ttft_ms", &ServingForecast::ttft_ms, "Time to first token, a Distribution.")
      .Field("tpot_ms", &ServingForecast::tpot_ms, "Time per output token, a Distribution.")
      .Field("ttft_interval_ms", &ServingForecast::ttft_interval_ms, "Of the mean, an Interval.")
      .Field("tpot_interval_ms", &ServingForecast::tpot_interval_ms, "Of the mean, an Interval.")
      .Field("ttft_parts_ms", &ServingForecast::ttft_parts_ms, "FirstTokenParts.")
      .Field("requests_per_s", &ServingForecast::requests_per_s, "Requests per second.")
      .Field("output_tokens_per_s", &ServingForecast::output_tokens_per_s, "Tokens per second.")
      .Field("request_latency_ms", &ServingForecast::request_latency_ms, "Mean (ms).")
      .Field("mean_running", &ServingForecast::mean_running, "Requests that decode, on average.")
      .Field("context_step_share", &ServingForecast::context_step_share, "Steps with prompts.")
      .Field("peak_kv_share", &ServingForecast::peak_kv_share, "Of the KV cache, at most.");
  Record<FormulaFigures>(m, "FormulaFigures", "Figures by the steady closed formula.")
      .Field("ttft_ms", &FormulaFigures::ttft_ms, "Time to first token (ms).")
      .Field("tpot_ms", &FormulaFigures::tpot_ms, "Time per output token (ms).")
      .Field("request_latency_ms", &FormulaFigures::request_latency_ms, "Whole request (ms).")
      .Field("tokens_per_s", &FormulaFigures::tokens_per_s, "Generated tokens per second.")
      .Field("tokens_per_s_per_gpu", &FormulaFigures::tokens_per_s_per_gpu, "The same per GPU.")
      .Field("tokens_per_s_per_user", &FormulaFigures::tokens_per_s_per_user, "Per request.")
      .Field("requests_per_s", &FormulaFigures::requests_per_s, "Requests per second.")
      .Field("concurrency", &FormulaFigures::concurrency, "Requests in flight.");
  {
    Record<Forecast> r(m, "Forecast", "One deployment and its figures.");
    r.Field("mode", &Forecast::mode, "agg, disagg, afd, static, static_ctx or static_gen.")
        .Field("isl", &Forecast::isl, "Input tokens of a request.")
        .Field("osl", &Forecast::osl, "Generated tokens of a request.")
        .Field("prefix", &Forecast::prefix, "Cached input tokens.")
        .Field("scored_by", &Forecast::scored_by,
               "What the figures are: closed_loop (of the run) or formula.")
        .Field("ttft_ms", &Forecast::ttft_ms, "Time to first token (ms).")
        .Field("tpot_ms", &Forecast::tpot_ms, "Time per output token (ms).")
        .Field("request_latency_ms", &Forecast::request_latency_ms, "Of a whole request (ms).")
        .Field("tokens_per_s", &Forecast::tokens_per_s, "Generated tokens per second.")
        .Field("tokens_per_s_per_gpu", &Forecast::tokens_per_s_per_gpu, "The same per GPU.")
        .Field("tokens_per_s_per_user", &Forecast::tokens_per_s_per_user, "The same per request.")
        .Field("requests_per_s", &Forecast::requests_per_s, "Requests per second.")
        .Field("concurrency", &Forecast::concurrency, "Requests in flight.")
        .Field("num_gpus", &Forecast::num_gpus, "GPUs of all workers.")
        .Field("encoder_latency_ms", &Forecast::encoder_latency_ms, "Vision encoder (ms).")
        .Field("context_latency_ms", &Forecast::context_latency_ms, "Static modes: prefill (ms).")
        .Field("generation_latency_ms", &Forecast::generation_latency_ms,
               "Static modes: decode (ms).")
        .Field("power_w", &Forecast::power_w, "Watts per GPU; None: not enough measured.")
        .Field("fits", &Forecast::fits, "Whether it fits in memory.")
        .Field("workers", &Forecast::workers, "A list of WorkerForecast.")
        .Field("formula", &Forecast::formula, "FormulaFigures.")
        .Field("serving", &Forecast::serving, "The run, a ServingForecast; None: there was none.")
        .Field("tokens_per_s_per_gpu_cluster", &Forecast::tokens_per_s_per_gpu_cluster,
               "Picked rows: per GPU of the cluster, idle ones included.")
        .Field("replicas", &Forecast::replicas, "Recommended rows: copies that carry the load.")
        .Field("total_gpus", &Forecast::total_gpus, "Recommended rows: GPUs of all copies.")
        .Field("load_served_percent", &Forecast::load_served_percent,
               "Recommended rows: where a GPU ceiling capped the load.")
        .Field("phases", &Forecast::phases, "Estimates: a list of PhaseCost.")
        .Field("notes", &Forecast::notes, "Assumptions and warnings.");
    r.cls().def(
        "to_pandas", [](const Forecast& self) { return Frame("forecast_frame", self); },
        "A DataFrame of one row. Needs pandas.");
  }
  {
    Record<SearchExperiment> r(m, "SearchExperiment", "One way to serve: a mode under a backend.");
    r.Field("name", &SearchExperiment::name, "Name.")
        .Field("best", &SearchExperiment::best, "Picked forecasts, best first.")
        .Field("front", &SearchExperiment::front,
               "Pareto front: user speed against throughput per GPU.")
        .Field("best_value", &SearchExperiment::best_value, "Comparable between experiments.")
        .Field("exceeded", &SearchExperiment::exceeded,
               "Nothing meets the targets: the nearest are shown.");
  }
  {
    Record<SearchResult> r(m, "SearchResult", "What a sweep or a recommendation found.");
    r.Field("chosen", &SearchResult::chosen, "Name of the best experiment.")
        .Field("experiments", &SearchResult::experiments, "A list of SearchExperiment.")
        .Field("notes", &SearchResult::notes, "What failed or was left out, and why.");
    r.cls()
        .def_prop_ro("best", &SearchResult::Best, "The chosen experiment.")
        .def(
            "to_rows", [](const SearchResult& self) { return Frame("search_rows", self); },
            "A list of flat dicts: the picked rows of every experiment, the chosen one first.")
        .def(
            "to_pandas", [](const SearchResult& self) { return Frame("search_frame", self); },
            "The rows of to_rows as a DataFrame. Needs pandas.");
  }
  m.def(
      "estimate",
      [](const nb::kwargs& settings) {
        const NamedOptions options = OptionsOf(settings);
        Result<Forecast> forecast;
        {
          const nb::gil_scoped_release unlocked;
          forecast = Estimate(options.estimate());
        }
        return OrRaise(std::move(forecast));
      },
      "settings"_a);
  m.def(
      "sweep",
      [](const nb::kwargs& settings) {
        const NamedOptions options = OptionsOf(settings);
        Result<SearchResult> found;
        {
          const nb::gil_scoped_release unlocked;
          found = Sweep(options.sweep());
        }
        return OrRaise(std::move(found));
      },
      "settings"_a);
  m.def(
      "recommend",
      [](const nb::kwargs& settings) {
        const NamedOptions options = OptionsOf(settings);
        Result<SearchResult> found;
        {
          const nb::gil_scoped_release unlocked;
          found = Recommend(options.recommend());
        }
        return OrRaise(std::move(found));
      },
      "settings"_a);
}

}  // namespace infercast::python
