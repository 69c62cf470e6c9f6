#include "cli/command_outline.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string_view>

#include "base/modes.h"
#include "models/quantisation.h"

namespace infercast {
namespace {

template <NamedEnum E>
std::vector<std::string> NamesOf() {
  return {EnumNames<E>::kNames.begin(), EnumNames<E>::kNames.end()};
}

// Options whose values are a closed set that the commands check themselves.
std::vector<std::string> KnownValues(const std::string& option) {
  if (option == "backend") {
    std::vector<std::string> names = NamesOf<Backend>();
    names.emplace_back("auto");
    return names;
  }
  if (option == "database-mode") return {"SILICON", "HYBRID", "EMPIRICAL", "SOL"};
  if (option == "transfer-policy") return {"off", "conservative", "balanced", "aggressive"};
  if (option == "serving-mode") return {"auto", "all", "agg", "disagg", "afd"};
  if (option == "estimate-mode") {
    return {"agg", "disagg", "afd", "static", "static_ctx", "static_gen"};
  }
  if (option == "behaviour") return {"native", "reference"};
  if (option == "gemm-quant-mode") return NamesOf<GemmQuant>();
  if (option == "moe-quant-mode") return NamesOf<MoeQuant>();
  if (option == "kvcache-quant-mode") return NamesOf<KvQuant>();
  if (option == "fmha-quant-mode") return NamesOf<FmhaQuant>();
  if (option == "comm-quant-mode") return NamesOf<CommQuant>();
  return {};
}

bool TakesFile(std::string_view option) {
  for (const std::string_view end : {"-file", "-dir", "-path", "-paths", "html", "svg", "output"}) {
    if (option.ends_with(end)) return true;
  }
  return false;
}

OptionOutline OutlineOf(const CLI::Option& option) {
  OptionOutline outline;
  for (const std::string& name : option.get_lnames()) outline.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) outline.names.push_back("-" + name);
  outline.description = option.get_description();
  if (!option.get_default_str().empty()) {
    outline.description += fmt::format(" (default: {})", option.get_default_str());
  }
  outline.group = option.get_group();
  outline.required = option.get_required();
  if (option.get_positional() && outline.names.empty()) {
    outline.names.push_back(option.get_name(true, false));
  } else if (option.get_items_expected_max() == 0) {
    outline.kind = ValueKind::kFlag;
    return outline;
  }
  outline.placeholder = option.get_option_text();
  if (outline.placeholder.empty()) {
    // "TEXT:{a,b}" of options with checks: the type alone.
    const std::string type = option.get_type_name();
    outline.placeholder = type.substr(0, type.find(':'));
    if (outline.placeholder.empty()) outline.placeholder = "VALUE";
  }
  for (const std::string& name : option.get_lnames()) {
    if (outline.values.empty()) outline.values = KnownValues(name);
    if (name == "system" || name.ends_with("-system")) outline.kind = ValueKind::kSystem;
    if (name == "model" || name == "model-path") outline.kind = ValueKind::kModel;
    if (outline.kind == ValueKind::kText && TakesFile(name)) outline.kind = ValueKind::kFile;
  }
  if (!outline.values.empty()) outline.kind = ValueKind::kNames;
  return outline;
}

void Append(const CLI::App& app, const std::string& path, std::vector<CommandOutline>& all) {
  CommandOutline outline;
  outline.path = path;
  outline.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionOutline made = OutlineOf(*option);
    (option->get_positional() && option->get_lnames().empty() ? outline.positionals
                                                              : outline.options)
        .push_back(std::move(made));
  }
  std::vector<const CLI::App*> children;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_group().empty()) continue;  // hidden
    children.push_back(child);
    outline.subcommands.push_back(child->get_name());
  }
  all.push_back(std::move(outline));
  for (const CLI::App* child : children) {
    Append(*child, path.empty() ? child->get_name() : path + " " + child->get_name(), all);
  }
}

}  // namespace

std::vector<CommandOutline> OutlineOf(const CLI::App& app) {
  std::vector<CommandOutline> all;
  Append(app, "", all);
  return all;
}

}  // namespace infercast
