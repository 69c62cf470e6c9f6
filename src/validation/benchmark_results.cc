#include "validation/benchmark_results.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace infercast {

namespace {

using nlohmann::json;

// The number at a path of keys, if there is one above zero.
template <typename... Keys>
std::optional<double> Number(const json& root, Keys... keys) {
  const json* at = &root;
  for (const char* key : {keys...}) {
    if (!at->is_object()) return std::nullopt;
    const auto it = at->find(key);
    if (it == at->end()) return std::nullopt;
    at = &*it;
  }
  if (!at->is_number()) return std::nullopt;
  const double v = at->get<double>();
  return std::isfinite(v) && v > 0 && v < 1e12 ? std::optional(v) : std::nullopt;
}

template <typename... Keys>
std::optional<std::int64_t> Whole(const json& root, Keys... keys) {
  const std::optional<double> v = Number(root, keys...);
  return v ? std::optional(static_cast<std::int64_t>(std::llround(*v))) : std::nullopt;
}

std::string Text(const json& root, const char* key) {
  const auto it = root.find(key);
  return it != root.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// Mean lengths stand for every request.
void SetMeanLengths(MeasuredPoint& p, std::optional<double> in, std::optional<double> out) {
  if (in) p.isl = std::max<std::int64_t>(1, std::llround(*in));
  if (out) p.osl = std::max<std::int64_t>(1, std::llround(*out));
  p.shortest = 1;
}

// vllm bench serve and sglang.bench_serving share the names of their figures.
std::optional<MeasuredPoint> FromBenchServe(const json& j) {
  if (!j.contains("mean_ttft_ms") || !j.contains("mean_tpot_ms")) return std::nullopt;
  MeasuredPoint p;
  p.ttft_ms = Number(j, "mean_ttft_ms");
  p.tpot_ms = Number(j, "mean_tpot_ms");
  p.model = Text(j, "model_id");
  p.concurrency = Whole(j, "max_concurrency");
  p.rate = Number(j, "request_rate");
  p.requests = Whole(j, "completed");
  const std::optional<double> done = Number(j, "completed");
  if (done) {
    const auto mean = [&](const char* key) -> std::optional<double> {
      const std::optional<double> total = Number(j, key);
      return total ? std::optional(*total / *done) : std::nullopt;
    };
    SetMeanLengths(p, mean("total_input_tokens"), mean("total_output_tokens"));
  }
  // Without a limit all requests are in flight at once.
  if (!p.concurrency && !p.rate) p.concurrency = p.requests;
  p.source = j.contains("sharegpt_output_len") || j.contains("random_range_ratio")
                 ? "sglang bench_serving"
                 : "vllm bench serve";
  if (p.source == "sglang bench_serving") p.backend = "sglang";
  const auto info = j.find("server_info");
  const json& server = info != j.end() && info->is_object() ? *info : j;
  if (p.model.empty()) p.model = Text(server, "model_path");
  p.version = Text(server, "version");
  p.worker.tp = Whole(server, "tp_size");
  p.worker.pp = Whole(server, "pp_size");
  p.worker.dp = Whole(server, "dp_size");
  p.worker.moe_ep = Whole(server, "ep_size");
  if (!p.worker.tp) p.worker.tp = Whole(j, "tensor_parallel_size");
  return p;
}

std::vector<MeasuredPoint> FromGuideLlm(const json& j) {
  std::vector<MeasuredPoint> points;
  const auto list = j.find("benchmarks");
  if (list == j.end() || !list->is_array()) return points;
  for (const json& b : *list) {
    const auto metrics = b.find("metrics");
    if (metrics == b.end() || !metrics->is_object()) continue;
    const auto mean = [&](const char* name) {
      const std::optional<double> v = Number(*metrics, name, "successful", "mean");
      return v ? v : Number(*metrics, name, "mean");
    };
    MeasuredPoint p;
    p.source = "guidellm";
    p.ttft_ms = mean("time_to_first_token_ms");
    p.tpot_ms = mean("inter_token_latency_ms");  // its time_per_output_token counts the first one
    SetMeanLengths(p, mean("prompt_token_count"), mean("output_token_count"));
    if (const std::optional<double> c = mean("request_concurrency")) {
      p.concurrency = std::max<std::int64_t>(1, std::llround(*c));
    }
    for (const char* where : {"args", "config"}) {
      const auto settings = b.find(where);
      if (settings == b.end() || !settings->is_object()) continue;
      const auto strategy = settings->find("strategy");
      if (strategy == settings->end() || !strategy->is_object()) continue;
      std::string kind = Text(*strategy, "type_");
      if (kind.empty()) kind = Text(*strategy, "type");
      if (const auto streams = Whole(*strategy, "streams")) p.concurrency = streams;
      if (kind == "constant" || kind == "poisson") {
        p.rate = Number(*strategy, "rate");
        if (p.rate) p.concurrency = std::nullopt;
      }
    }
    if (p.ttft_ms || p.tpot_ms) points.push_back(std::move(p));
  }
  return points;
}

std::optional<MeasuredPoint> FromAiPerf(const json& j) {
  const auto records = j.find("records");
  const json& figures = records != j.end() && records->is_object() ? *records : j;
  MeasuredPoint p;
  p.ttft_ms = Number(figures, "time_to_first_token", "avg");
  p.tpot_ms = Number(figures, "inter_token_latency", "avg");
  if (!p.ttft_ms && !p.tpot_ms) return std::nullopt;
  p.source = "aiperf";
  SetMeanLengths(p, Number(figures, "input_sequence_length", "avg"),
                 Number(figures, "output_sequence_length", "avg"));
  p.concurrency = Whole(j, "input_config", "loadgen", "concurrency");
  p.rate = Number(j, "input_config", "loadgen", "request_rate");
  p.requests = Whole(figures, "request_count", "avg");
  if (const auto config = j.find("input_config"); config != j.end() && config->is_object()) {
    const auto endpoint = config->find("endpoint");
    if (endpoint != config->end() && endpoint->is_object()) {
      const auto names = endpoint->find("model_names");
      if (names != endpoint->end() && names->is_array() && !names->empty() &&
          (*names)[0].is_string()) {
        p.model = (*names)[0].get<std::string>();
      }
    }
  }
  return p;
}

void FillGaps(MeasuredPoint& p, const BenchmarkDeployment& d) {
  const auto text = [](std::string& at, const std::string& from) {
    if (at.empty()) at = from;
  };
  // What the caller says of the deployment beats a served alias.
  if (!d.model.empty()) p.model = d.model;
  text(p.system, d.system);
  text(p.backend, d.backend);
  text(p.version, d.version);
  text(p.precision, d.precision);
  const auto size = [](std::optional<std::int64_t>& at, std::optional<std::int64_t> from) {
    if (!at) at = from;
  };
  size(p.worker.tp, d.worker.tp);
  size(p.worker.pp, d.worker.pp);
  size(p.worker.dp, d.worker.dp);
  size(p.worker.moe_tp, d.worker.moe_tp);
  size(p.worker.moe_ep, d.worker.moe_ep);
  size(p.isl, d.isl);
  size(p.osl, d.osl);
  if (!p.rate) size(p.concurrency, d.concurrency);
}

void Collect(const json& document, std::vector<MeasuredPoint>& points) {
  if (document.is_array()) {
    for (const json& part : document) Collect(part, points);
    return;
  }
  if (!document.is_object()) return;
  if (std::optional<MeasuredPoint> p = FromBenchServe(document)) {
    points.push_back(*std::move(p));
    return;
  }
  std::vector<MeasuredPoint> guide = FromGuideLlm(document);
  if (!guide.empty()) {
    for (MeasuredPoint& p : guide) points.push_back(std::move(p));
    return;
  }
  if (std::optional<MeasuredPoint> p = FromAiPerf(document)) points.push_back(*std::move(p));
}

}  // namespace

Result<MeasuredFile> ParseBenchmarkResults(std::string_view text,
                                           const BenchmarkDeployment& deployment) {
  MeasuredFile file;
  const json whole = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_discarded()) {
    Collect(whole, file.points);
  } else {
    // One document a line.
    std::size_t number = 0;
    while (!text.empty()) {
      ++number;
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const json one = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (one.is_discarded()) {
        file.warnings.push_back(fmt::format("line {} is no JSON", number));
        continue;
      }
      Collect(one, file.points);
    }
  }
  if (file.points.empty()) {
    return Fail(
        ErrorKind::kInvalidArgument,
        "no result of vllm bench serve, sglang.bench_serving, GuideLLM or AIPerf was found");
  }
  for (std::size_t i = 0; i < file.points.size(); ++i) {
    file.points[i].line = i + 1;
    FillGaps(file.points[i], deployment);
  }
  return file;
}

Result<MeasuredFile> ParseMeasured(std::string_view text, const BenchmarkDeployment& deployment) {
  const std::size_t start = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start != std::string_view::npos && (text[start] == '{' || text[start] == '[')) {
    return ParseBenchmarkResults(text, deployment);
  }
  IC_ASSIGN(MeasuredFile file, ParseMeasuredCsv(text));
  for (MeasuredPoint& p : file.points) {
    const std::string model = p.model;
    FillGaps(p, deployment);
    if (!model.empty()) p.model = model;
  }
  return file;
}

}  // namespace infercast
