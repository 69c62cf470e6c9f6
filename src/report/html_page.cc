// Packs points into columns with one table of texts, so that thousands of points stay small.
#include "report/html_page.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "report/page_assets.h"

namespace infercast {
namespace {

using nlohmann::ordered_json;

class TextTable {
 public:
  std::size_t IndexOf(std::string_view text) {
    const auto [entry, added] = index_.try_emplace(std::string(text), texts_.size());
    if (added) texts_.push_back(std::string(text));
    return entry->second;
  }
  ordered_json Take() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, std::size_t> index_;
  ordered_json texts_ = ordered_json::array();
};

// Enough digits for people; null for what is no number.
ordered_json Figure(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

ordered_json Words(std::string_view command, TextTable& texts) {
  ordered_json words = ordered_json::array();
  while (!command.empty()) {
    const std::size_t end = std::min(command.find(' '), command.size());
    words.push_back(texts.IndexOf(command.substr(0, end)));
    command.remove_prefix(std::min(end + 1, command.size()));
  }
  return words;
}

ordered_json PhasesOf(const PlotPoint& point, TextTable& texts) {
  ordered_json phases = ordered_json::array();
  for (const PlotPhase& phase : point.phases) {
    ordered_json list = {texts.IndexOf(phase.name)};
    for (const PlotOperator& op : phase.operators) {
      list.push_back(texts.IndexOf(op.name));
      list.push_back(Figure(op.ms, 4));
      list.push_back(texts.IndexOf(op.bound));
    }
    phases.push_back(std::move(list));
  }
  return phases;
}

std::string DataBlock(const PlotData& data) {
  constexpr int kDigits = 8;
  TextTable texts;
  ordered_json columns;
  for (const char* name : {"series", "system", "backend", "mode", "parallel", "user", "gpu", "ttft",
                           "tpot", "concurrency", "gpus", "picked", "facts", "command", "phases"}) {
    columns[name] = ordered_json::array();
  }
  for (const PlotPoint& p : data.points) {
    columns["series"].push_back(texts.IndexOf(p.series));
    columns["system"].push_back(texts.IndexOf(p.system));
    columns["backend"].push_back(texts.IndexOf(p.backend));
    columns["mode"].push_back(texts.IndexOf(p.mode));
    columns["parallel"].push_back(texts.IndexOf(p.parallel));
    columns["user"].push_back(Figure(p.tokens_s_user, kDigits));
    columns["gpu"].push_back(Figure(p.tokens_s_gpu, kDigits));
    columns["ttft"].push_back(Figure(p.ttft_ms, kDigits));
    columns["tpot"].push_back(Figure(p.tpot_ms, kDigits));
    columns["concurrency"].push_back(Figure(p.concurrency, kDigits));
    columns["gpus"].push_back(p.gpus);
    columns["picked"].push_back(p.picked ? 1 : 0);
    ordered_json facts = ordered_json::array();
    for (const auto& [name, value] : p.facts) {
      facts.push_back(texts.IndexOf(name));
      facts.push_back(texts.IndexOf(value));
    }
    columns["facts"].push_back(std::move(facts));
    columns["command"].push_back(Words(p.command, texts));
    columns["phases"].push_back(PhasesOf(p, texts));
  }
  ordered_json all = {{"title", data.title}, {"subtitle", data.subtitle}, {"notes", data.notes}};
  all["target"] = data.tpot_target_ms ? Figure(*data.tpot_target_ms, kDigits) : ordered_json();
  all["points"] = std::move(columns);
  all["texts"] = texts.Take();
  const std::string json = all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  // "<" opens tags and comments even inside a script element. In JSON it stands in strings only.
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string HtmlPage(const PlotData& data) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // Nothing may be loaded from anywhere, whatever a text in the page tries.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>Infercast</title>\n<style>\n";
  page += kPageStyle;
  page +=
      "</style>\n</head>\n<body>\n<header><h1 id=\"title\"></h1><p class=\"soft\" "
      "id=\"subtitle\"></p>"
      "<div id=\"notes\"></div></header>\n<main>\n"
      "<div class=\"card filters\" id=\"filters\"></div>\n<div class=\"top\">\n"
      "<section class=\"card\"><div class=\"chart\"><div id=\"plot\"></div>"
      "<div class=\"tip\" id=\"tip\" hidden></div></div><div class=\"legend\" id=\"legend\"></div>"
      "</section>\n<section class=\"card\" id=\"detail\" aria-live=\"polite\"></section>\n</div>\n"
      "<section class=\"card\"><div class=\"foot\"><b id=\"count\"></b>"
      "<span class=\"soft\">click a point or a row for its breakdown and command</span></div>\n"
      "<div class=\"wide\"><table><thead><tr id=\"head\"></tr></thead><tbody id=\"rows\"></tbody>"
      "</table></div><div class=\"foot\"><button type=\"button\" "
      "id=\"more\"></button></div></section>\n"
      "</main>\n<script type=\"application/json\" id=\"data\">";
  page += DataBlock(data);
  page += "</script>\n<script>\n";
  page += kPageScript;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace infercast
