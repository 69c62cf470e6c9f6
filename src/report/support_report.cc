#include "report/support_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace infercast {
namespace {

using nlohmann::ordered_json;

std::string Sentence(const ModeSupport& mode) {
  switch (mode.kind) {
    case SupportKind::kMeasured:
      return "yes, from measurements, e.g. " + mode.layout;
    case SupportKind::kEstimated:
      return fmt::format("with estimates ({}), e.g. {}; measurements alone: {}", mode.estimate,
                         mode.layout, mode.missing ? mode.missing->message : "");
    case SupportKind::kNo:
      return "no: " + (mode.missing ? mode.missing->message : std::string());
    case SupportKind::kNotAsked:
      return "not looked at";
  }
  return "";
}

char Letter(const SupportAnswer& answer) {
  constexpr std::string_view kMeasured = "TSV", kEstimated = "tsv";
  const auto backend = static_cast<std::size_t>(answer.question.backend);
  const SupportKind a = answer.aggregated.kind, d = answer.disaggregated.kind;
  if (a == SupportKind::kNotAsked || d == SupportKind::kNotAsked) return '?';
  if (a == SupportKind::kNo && d == SupportKind::kNo) return '-';
  if (a == SupportKind::kNo || d == SupportKind::kNo) return '1';
  if (a == SupportKind::kMeasured && d == SupportKind::kMeasured) return kMeasured[backend];
  return kEstimated[backend];
}

ordered_json ModeJson(const ModeSupport& mode) {
  ordered_json json = {{"support", ToString(mode.kind)}};
  json["layout"] = mode.layout.empty() ? ordered_json() : ordered_json(mode.layout);
  json["estimate"] = mode.estimate.empty() ? ordered_json() : ordered_json(mode.estimate);
  json["missing"] = ordered_json();
  if (mode.missing) {
    json["missing"] = {{"kind", ToString(mode.missing->kind)}, {"message", mode.missing->message}};
  }
  return json;
}

}  // namespace

std::string SupportText(std::span<const SupportAnswer> answers) {
  std::string text;
  std::string last;
  for (const SupportAnswer& a : answers) {
    const std::string head = fmt::format("{} on {}", a.question.model, a.question.system);
    if (head != last) {
      text += fmt::format("{}{}{}\n", text.empty() ? "" : "\n", head,
                          a.architecture.empty() ? "" : " (" + a.architecture + ")");
    }
    last = head;
    text += fmt::format("  {} {}\n    aggregated     {}\n    disaggregated  {}\n",
                        ToString(a.question.backend), a.version, Sentence(a.aggregated),
                        Sentence(a.disaggregated));
  }
  return text;
}

std::string SupportMatrixText(std::span<const SupportAnswer> answers) {
  std::vector<std::string> models, systems;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  std::size_t widest = 5;
  for (const SupportAnswer& a : answers) {
    const std::string &model = a.question.model, &system = a.question.system;
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
    if (std::ranges::find(systems, system) == systems.end()) systems.push_back(system);
    cells[{model, system}] += Letter(a);
    widest = std::max(widest, model.size());
  }
  std::string text = fmt::format("{:<{}}", "model", widest);
  for (const std::string& system : systems) text += fmt::format("  {:>5}", system);
  text += "\n";
  for (const std::string& model : models) {
    text += fmt::format("{:<{}}", model, widest);
    for (const std::string& system : systems) {
      text +=
          fmt::format("  {:>{}}", cells[{model, system}], std::max<std::size_t>(system.size(), 5));
    }
    text += "\n";
  }
  text +=
      "\nT trtllm, S sglang, V vllm: capital where measurements answer, small where estimates must "
      "help;\n1: only one of agg and disagg answers, -: neither. "
      "`infercast support --model M --system S` tells why.\n";
  return text;
}

ResultTable SupportTable(std::span<const SupportAnswer> answers) {
  ResultTable table;
  table.columns = {{"model", "model", "", "model", 0},
                   {"architecture", "architecture", "", "", 0},
                   {"system", "system", "", "system", 0},
                   {"backend", "backend", "", "backend", 0},
                   {"version", "version", "", "version", 0},
                   {"mode", "mode", "", "mode", 0},
                   {"support", "support", "", "support", 0},
                   {"layout", "layout", "", "layout", 0},
                   {"estimate", "estimate", "", "estimate", 0},
                   {"missing_kind", "missing_kind", "", "", 0},
                   {"missing", "missing", "", "", 0}};
  for (const SupportAnswer& a : answers) {
    for (const bool pools : {false, true}) {
      const ModeSupport& mode = pools ? a.disaggregated : a.aggregated;
      const auto text = [](std::string value) {
        return value.empty() ? Cell() : Cell(std::move(value));
      };
      table.rows.push_back({text(a.question.model), text(a.architecture), text(a.question.system),
                            text(std::string(ToString(a.question.backend))), text(a.version),
                            text(pools ? "disagg" : "agg"), text(std::string(ToString(mode.kind))),
                            text(mode.layout), text(mode.estimate),
                            mode.missing ? text(std::string(ToString(mode.missing->kind))) : Cell(),
                            mode.missing ? text(mode.missing->message) : Cell()});
    }
  }
  return table;
}

std::string ComparisonText(const SupportComparison& c) {
  std::string text = fmt::format(
      "compared with the data package's own support tables: {} of {} rows agree, among them {} of "
      "{} published as PASS\n",
      c.agreed, c.rows, c.agreed_pass, c.published_pass);
  if (c.not_asked > 0) text += fmt::format("  {} rows were not looked at\n", c.not_asked);
  for (const SupportComparison::Difference& d : c.differences) {
    text += fmt::format("  {:>5} x {}\n          e.g. {}\n", d.count, d.kind, d.example);
  }
  return text;
}

std::string SupportJson(std::span<const SupportAnswer> answers,
                        const std::optional<SupportComparison>& comparison) {
  ordered_json json = {{"answers", ordered_json::array()}, {"comparison", nullptr}};
  for (const SupportAnswer& a : answers) {
    json["answers"].push_back({{"model", a.question.model},
                               {"architecture", a.architecture},
                               {"system", a.question.system},
                               {"backend", ToString(a.question.backend)},
                               {"version", a.version},
                               {"agg", ModeJson(a.aggregated)},
                               {"disagg", ModeJson(a.disaggregated)}});
  }
  if (comparison) {
    ordered_json differences = ordered_json::array();
    for (const SupportComparison::Difference& d : comparison->differences) {
      differences.push_back({{"kind", d.kind}, {"count", d.count}, {"example", d.example}});
    }
    json["comparison"] = {{"rows", comparison->rows},
                          {"agreed", comparison->agreed},
                          {"published_pass", comparison->published_pass},
                          {"agreed_pass", comparison->agreed_pass},
                          {"not_asked", comparison->not_asked},
                          {"differences", std::move(differences)}};
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace infercast
