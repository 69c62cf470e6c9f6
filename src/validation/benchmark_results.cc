#include "validation/benchmark_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
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
  if (!root.is_object()) return "";
  const auto it = root.find(key);
  return it != root.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// A part of a document; null where it is not there.
const json& Part(const json& root, const char* key) {
  static const json none;
  if (!root.is_object()) return none;
  const auto it = root.find(key);
  return it == root.end() ? none : *it;
}

// The first of these that is a whole number above zero, be it written as text: what a user adds to
// a result by hand (--metadata tensor_parallel_size=8) is text.
std::optional<std::int64_t> Setting(const json& root, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const std::optional<std::int64_t> v = Whole(root, key)) return v;
    const std::string text = Text(root, key);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool all = end == text.data() + text.size();
    if (error == std::errc() && all && value > 0 && value < (1 << 24)) return value;
  }
  return std::nullopt;
}

// Uniform lengths from a share of the nominal one on; a share of 0 is any length.
void SetUniformLengths(MeasuredPoint& p, std::int64_t in, std::int64_t out, double shortest) {
  p.isl = std::max<std::int64_t>(1, in);
  p.osl = std::max<std::int64_t>(1, out);
  p.shortest = std::clamp(shortest, 1e-6, 1.0);
}

// Mean and largest of a list of lengths.
struct Lengths {
  double mean = 0, most = 0;
  // Uniform from this share of the largest on has this mean; below 0: not uniform.
  double shortest() const { return most > 0 ? 2 * mean / most - 1 : -1; }
};
std::optional<Lengths> LengthsOf(const json& list) {
  if (!list.is_array() || list.empty()) return std::nullopt;
  Lengths lengths;
  double n = 0;
  for (const json& one : list) {
    if (!one.is_number()) return std::nullopt;
    const double v = one.get<double>();
    if (!(v >= 0 && v < 1e9)) return std::nullopt;
    if (v == 0) continue;  // of a request that failed
    lengths.mean += v;
    lengths.most = std::max(lengths.most, v);
    ++n;
  }
  if (n == 0) return std::nullopt;
  lengths.mean /= n;
  return lengths;
}

// Mean lengths stand for every request.
void SetMeanLengths(MeasuredPoint& p, std::optional<double> in, std::optional<double> out) {
  if (in) p.isl = std::max<std::int64_t>(1, std::llround(*in));
  if (out) p.osl = std::max<std::int64_t>(1, std::llround(*out));
  p.shortest = 1;
}

// The engine behind SGLang's name for an endpoint ("sglang-oai", "vllm-chat", "trt"); "" for
// names that fit any engine ("openai").
std::string EngineOf(const std::string& endpoint) {
  if (endpoint.starts_with("sglang")) return "sglang";
  if (endpoint.starts_with("vllm")) return "vllm";
  if (endpoint.starts_with("trt") || endpoint.starts_with("tensorrt")) return "trtllm";
  return "";
}

// What speculation achieved, as vLLM's metrics count it: drafts, tokens drafted, tokens accepted.
void SetSpeculation(MeasuredPoint& p, const json& j) {
  const std::optional<double> drafts = Number(j, "spec_decode_num_drafts");
  const std::optional<double> drafted = Number(j, "spec_decode_draft_tokens");
  if (!drafts || !drafted || *drafted < *drafts) return;
  p.nextn = std::llround(*drafted / *drafts);
  p.nextn_accepted = Number(j, "spec_decode_accepted_tokens").value_or(0) / *drafts;
}

// vllm bench serve and sglang.bench_serving share the names of their figures. Either may leave a
// figure out (vLLM: --percentile-metrics).
std::optional<MeasuredPoint> FromBenchServe(const json& j) {
  if (!j.contains("completed") || !j.contains("total_output_tokens")) return std::nullopt;
  if (!j.contains("mean_ttft_ms") && !j.contains("mean_tpot_ms")) return std::nullopt;
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
  // Lengths of single requests, where they were kept, tell how they were spread.
  const std::optional<Lengths> in = LengthsOf(Part(j, "input_lens"));
  const std::optional<Lengths> out = LengthsOf(Part(j, "output_lens"));
  if (in && out && in->shortest() >= 0 && out->shortest() >= 0) {
    SetUniformLengths(p, std::llround(in->most), std::llround(out->most),
                      0.5 * (in->shortest() + out->shortest()));
  }
  SetSpeculation(p, j);
  // At a rate the concurrency is a limit only; without either all requests are in flight at once.
  if (p.rate) p.concurrency.reset();
  if (!p.concurrency && !p.rate) p.concurrency = p.requests;
  p.source = j.contains("sharegpt_output_len") || j.contains("random_range_ratio")
                 ? "sglang bench_serving"
                 : "vllm bench serve";
  if (p.source == "sglang bench_serving") {
    p.backend = EngineOf(Text(j, "backend"));
    // Its random lengths are uniform between a share of the nominal ones and those.
    const std::optional<std::int64_t> isl = Whole(j, "random_input_len");
    const std::optional<std::int64_t> osl = Whole(j, "random_output_len");
    const json& ratio = Part(j, "random_range_ratio");
    if (Text(j, "dataset_name").starts_with("random") && isl && osl && ratio.is_number()) {
      SetUniformLengths(p, *isl, *osl, ratio.get<double>());
    }
  }
  const json& info = Part(j, "server_info");
  const json& server = info.is_object() ? info : j;
  if (p.model.empty()) p.model = Text(server, "model_path");
  p.version = Text(server, "version");
  p.worker.tp = Setting(server, {"tp_size", "tensor_parallel_size", "tp"});
  p.worker.pp = Setting(server, {"pp_size", "pipeline_parallel_size", "pp"});
  p.worker.dp = Setting(server, {"dp_size", "data_parallel_size", "dp"});
  p.worker.moe_ep = Setting(server, {"ep_size"});
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
    // Which model was asked for stands with the backend of the benchmark or of the report.
    p.model = Text(Part(Part(b, "config"), "backend"), "model");
    const json& arguments = Part(j, "args");
    if (p.model.empty()) p.model = Text(Part(arguments, "backend_kwargs"), "model");
    if (p.model.empty()) p.model = Text(arguments, "model");
    p.requests = Whole(*metrics, "request_totals", "successful");
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
      if (kind == "synchronous") p.concurrency = 1;
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
  p.requests = Whole(figures, "request_count", "avg");
  // Two layouts of its configuration: one load, or phases of which the profiling one counts.
  const json& config = Part(j, "input_config");
  const json& load = Part(config, "loadgen");
  p.concurrency = Whole(load, "concurrency");
  p.rate = Number(load, "request_rate");
  if (const json& phases = Part(config, "phases"); phases.is_array()) {
    for (const json& phase : phases) {
      const std::string kind = Text(phase, "kind");
      if ((kind.empty() ? Text(phase, "name") : kind) != "profiling") continue;
      p.concurrency = Whole(phase, "concurrency");
      p.rate = Number(phase, "rate");
    }
  }
  // At a rate the concurrency is a limit only.
  if (p.rate) p.concurrency.reset();
  if (const json& names = Part(Part(config, "endpoint"), "model_names");
      names.is_array() && !names.empty() && names[0].is_string()) {
    p.model = names[0].get<std::string>();
  } else if (const json& items = Part(Part(config, "models"), "items");
             items.is_array() && !items.empty()) {
    p.model = Text(items[0], "name");
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

// Python writes infinite and undefined numbers as words that are no JSON: they become null.
std::string WithoutPythonWords(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\' && i + 1 < text.size()) out += text[i++];
      quoted = c != '"';
      out += text[i];
      continue;
    }
    bool word = false;
    for (const std::string_view known : {"-Infinity", "Infinity", "NaN"}) {
      if (!text.substr(i).starts_with(known)) continue;
      out += "null";
      i += known.size() - 1;
      word = true;
      break;
    }
    if (word) continue;
    quoted = c == '"';
    out += c;
  }
  return out;
}

// Results may stand in lists, which no tool nests deep; of a hostile file the rest is left out.
constexpr int kMostNesting = 16;

void Collect(const json& document, std::vector<MeasuredPoint>& points, int nesting = 0) {
  if (document.is_array()) {
    if (nesting == kMostNesting) return;
    for (const json& part : document) Collect(part, points, nesting + 1);
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

Result<MeasuredFile> ParseBenchmarkResults(std::string_view given,
                                           const BenchmarkDeployment& deployment) {
  MeasuredFile file;
  const std::string json_text = WithoutPythonWords(given);
  std::string_view text = json_text;
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
