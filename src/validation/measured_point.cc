#include "validation/measured_point.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "validation/csv.h"

namespace infercast {

namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// "nan", "none", "null" and nothing are no value.
bool IsMissing(std::string_view text) {
  if (text.empty()) return true;
  std::string lower;
  for (const char c : text) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower == "nan" || lower == "none" || lower == "null" || lower == "n/a" || lower == "-";
}

class Cells {
 public:
  Cells(const std::map<std::string, std::size_t, std::less<>>& columns, const CsvLine& line,
        std::vector<std::string>& warnings)
      : columns_(columns), line_(line), warnings_(warnings) {}

  std::string_view Raw(std::string_view name) const {
    const auto it = columns_.find(name);
    if (it == columns_.end() || it->second >= line_.cells.size()) return {};
    const std::string_view text = Trim(line_.cells[it->second]);
    return IsMissing(text) ? std::string_view{} : text;
  }
  // The first of the names that has a value.
  template <typename... Names>
  std::string Text(Names... names) const {
    std::string_view found;
    ((found = found.empty() ? Raw(names) : found), ...);
    return std::string(found);
  }
  template <typename... Names>
  std::optional<double> Number(Names... names) const {
    const std::string text = Text(names...);
    if (text.empty()) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      warnings_.push_back(fmt::format("line {}: '{}' is no number", line_.number, text));
      return std::nullopt;
    }
    return value;
  }
  template <typename... Names>
  std::optional<std::int64_t> Whole(Names... names) const {
    const std::optional<double> value = Number(names...);
    if (!value) return std::nullopt;
    if (!(std::abs(*value) < 1e9)) {
      warnings_.push_back(fmt::format("line {}: {} is out of range", line_.number, *value));
      return std::nullopt;
    }
    return static_cast<std::int64_t>(std::llround(*value));
  }
  MeasuredWorker Worker(const std::string& prefix) const {
    const auto size = [&](const char* name) {
      return Whole(std::string_view(prefix + name + "_size"), std::string_view(prefix + name));
    };
    MeasuredWorker w;
    w.batch = Whole(std::string_view(prefix + "batch_size"));
    w.workers =
        Whole(std::string_view(prefix + "num_workers"), std::string_view(prefix + "workers"));
    w.tp = size("tp");
    w.pp = size("pp");
    w.dp = Whole(std::string_view(prefix + "attention_dp_size"),
                 std::string_view(prefix + "dp_size"), std::string_view(prefix + "dp"));
    w.moe_tp = size("moe_tp");
    w.moe_ep = size("moe_ep");
    return w;
  }

 private:
  const std::map<std::string, std::size_t, std::less<>>& columns_;
  const CsvLine& line_;
  std::vector<std::string>& warnings_;
};

}  // namespace

std::string ProvenanceField(std::string_view source, std::string_view key) {
  while (!source.empty()) {
    const std::size_t end = source.find(';');
    const std::string_view part = Trim(source.substr(0, end));
    if (part.size() > key.size() && part.starts_with(key) && part[key.size()] == '=') {
      return std::string(part.substr(key.size() + 1));
    }
    if (end == std::string_view::npos) break;
    source.remove_prefix(end + 1);
  }
  return {};
}

Result<MeasuredFile> ParseMeasuredCsv(std::string_view text) {
  const std::vector<CsvLine> lines = ParseCsv(text);
  if (lines.empty())
    return Fail(ErrorKind::kInvalidArgument, "the file of measured points is empty");
  std::map<std::string, std::size_t, std::less<>> columns;
  for (std::size_t i = 0; i < lines[0].cells.size(); ++i) {
    columns.emplace(std::string(Trim(lines[0].cells[i])), i);
  }
  const auto has = [&](std::string_view name) { return columns.contains(name); };
  if (!has("model_path") && !has("model")) {
    return Fail(ErrorKind::kInvalidArgument,
                "the header of the measured points names no model column (model or model_path): is "
                "this a CSV file with a header?");
  }
  MeasuredFile file;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Cells cells(columns, lines[i], file.warnings);
    MeasuredPoint p;
    p.line = lines[i].number;
    p.id = cells.Text("id");
    p.source = cells.Text("silicon_data_source", "source");
    p.backend = cells.Text("backend");
    p.version = cells.Text("backend_version", "version");
    p.model = cells.Text("model_path", "model");
    p.system = cells.Text("system");
    p.precision = cells.Text("precision");
    p.mode = cells.Text("mode");
    p.gemm = cells.Text("gemm_quant_mode");
    p.moe = cells.Text("moe_quant_mode");
    p.kv = cells.Text("kvcache_quant_mode");
    p.fmha = cells.Text("fmha_quant_mode");
    p.isl = cells.Whole("isl");
    p.osl = cells.Whole("osl");
    p.prefix = cells.Whole("prefix");
    p.concurrency = cells.Whole("concurrency");
    p.rate = cells.Number("rate", "request_rate");
    p.requests = cells.Whole("requests", "num_prompts");
    p.shortest = cells.Number("shortest");
    p.worker = cells.Worker("");
    p.prefill = cells.Worker("prefill_");
    p.decode = cells.Worker("decode_");
    p.nextn = cells.Whole("nextn");
    p.nextn_accepted = cells.Number("nextn_accepted");
    p.ttft_ms = cells.Number("silicon_ttft_ms", "ttft_ms");
    p.tpot_ms = cells.Number("silicon_tpot_ms", "tpot_ms");
    file.points.push_back(std::move(p));
  }
  return file;
}

}  // namespace infercast
