// Reading and writing experiments through yaml-cpp.
#include "search/experiment_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/files.h"
#include "base/near_names.h"
#include "search/nested_experiment.h"

namespace infercast {

namespace {

using Fields = std::vector<SourceField>;

// Lines help where there are several.
struct Lines {
  bool several = false;
  int Of(const YAML::Node& node) const { return several ? node.Mark().line + 1 : 0; }
};

FieldValue ScalarValue(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  const char* begin = text.data() + (text.front() == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(begin, end, integer);
      error == std::errc() && at == end) {
    return integer;
  }
  double number = 0;
  if (const auto [at, error] = std::from_chars(begin, end, number);
      error == std::errc() && at == end && std::isfinite(number)) {
    return number;
  }
  return text;
}

Result<FieldValue> ValueOf(const YAML::Node& node, const std::string& name, int line) {
  if (!node.IsDefined() || node.IsNull()) return FieldValue();
  if (node.IsScalar()) return ScalarValue(node);
  if (node.IsSequence()) {
    std::vector<std::int64_t> integers;
    std::vector<std::string> words;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) break;
      words.push_back(item.Scalar());
      const FieldValue value = ScalarValue(item);
      if (const auto* i = std::get_if<std::int64_t>(&value)) integers.push_back(*i);
    }
    if (words.size() == node.size()) {
      if (integers.size() == words.size()) return FieldValue(std::move(integers));
      return FieldValue(std::move(words));
    }
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{}{}: expected a value or a flat list of values", AtLine(line), name));
}

Result<Fields> FlatFields(const YAML::Node& node, const Lines& lines) {
  Fields fields;
  for (const auto& item : node) {
    const auto key = item.first.as<std::string>();
    const int line = lines.Of(item.first);
    IC_ASSIGN(FieldValue value, ValueOf(item.second, key, line));
    fields.push_back({key, std::move(value), line});
  }
  return fields;
}

// Far more than any experiment has. An alias may name the mapping that it stands in, or mappings
// that hold many more, so that a short text is a tree without end.
constexpr std::size_t kMaxNesting = 16;
constexpr std::size_t kMaxNestedFields = 10'000;

// The older form as a tree, to be flattened. `left`: how many more fields it may have.
Result<NestedFields> Nested(const YAML::Node& node, const Lines& lines, std::size_t depth,
                            std::size_t& left) {
  NestedFields out;
  for (const auto& item : node) {
    if (depth > kMaxNesting || left == 0) {
      return Fail(ErrorKind::kInvalidArgument, "the fields nest too deeply or are too many");
    }
    --left;
    const auto key = item.first.as<std::string>();
    const int line = lines.Of(item.first);
    if (item.second.IsMap()) {
      IC_ASSIGN(NestedFields child, Nested(item.second, lines, depth + 1, left));
      out.blocks.push_back({key, std::move(child), line});
    } else {
      IC_ASSIGN(FieldValue value, ValueOf(item.second, key, line));
      out.values.push_back({key, std::move(value), line});
    }
  }
  return out;
}

const FieldValue* Find(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &SourceField::name);
  return found == fields.end() ? nullptr : &found->value;
}

bool HasText(const Fields& fields, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    const FieldValue* value = Find(fields, name);
    const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    return text != nullptr && !text->empty();
  });
}

const std::string* TextOf(const Fields& fields, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const FieldValue* value = Find(fields, name);
    const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
    if (text != nullptr && !text->empty()) return text;
  }
  return nullptr;
}

// Why an experiment cannot be run at all; empty when it can.
std::string Incomplete(const Fields& fields) {
  const std::string* mode = TextOf(fields, {"serving_mode"});
  if (mode == nullptr || !ParseEnum<ServingMode>(*mode)) {
    return "serving_mode is not agg, disagg or afd";
  }
  if (!HasText(fields, {"model_path", "prefill_model_path", "decode_model_path"})) {
    return "no model_path";
  }
  if (!HasText(fields, {"system_name", "prefill_system_name", "decode_system_name"})) {
    return "no system_name";
  }
  const FieldValue* gpus = Find(fields, "total_gpus");
  if (gpus == nullptr || std::holds_alternative<std::monostate>(*gpus)) return "no total_gpus";
  return {};
}

Result<Task> MakeTask(Fields fields, const ExperimentDefaults& defaults) {
  for (const auto& [name, value] : defaults.fields) {
    if (Find(fields, name) == nullptr) fields.push_back({name, value});
  }
  Task task;
  task.behaviour = defaults.behaviour;
  task.allow_unlisted_versions = defaults.allow_unlisted_versions;
  IC_RETURN_IF_ERROR(SetTaskFields(task, fields));
  if (task.mode == ServingMode::kAfd) {
    // Its one worker may be described by any role's fields.
    if (task.worker.model.empty()) {
      task.worker.model = task.prefill.model.empty() ? task.decode.model : task.prefill.model;
    }
    if (task.worker.system.empty()) {
      task.worker.system = task.prefill.system.empty() ? task.decode.system : task.prefill.system;
    }
  }
  return task;
}

Result<YAML::Node> Load(std::string_view text, std::string_view name) {
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& e) {
    return Fail(ErrorKind::kYaml, fmt::format("{}: {}", name, e.what()));
  }
  if (!root.IsMap()) {
    return Fail(ErrorKind::kYaml,
                fmt::format("{}: expected a mapping of experiment names to fields", name));
  }
  return root;
}

// Not an experiment: how the others are run.
constexpr const char* kRunOptions = "infercast";

Status ReadRunOptions(const YAML::Node& node, const Lines& lines, std::string_view name,
                      ExperimentFileOptions& out) {
  if (!node.IsDefined() || node.IsNull()) return {};
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: {}: {}", name, kRunOptions, why));
  };
  if (!node.IsMap()) return refuse("expected a mapping");
  static const std::vector<std::string> kKnown = {
      "request_rate", "concurrency", "max_gpus", "merge", "strict", "top_n", "score"};
  LoadTarget load;
  for (const auto& item : node) {
    const auto key = item.first.as<std::string>();
    const std::string at = AtLine(lines.Of(item.first));
    const auto read = [&]<typename T>(T, const char* what, const auto& set) -> Status {
      const std::optional<T> value = [&]() -> std::optional<T> {
        T parsed{};
        return YAML::convert<T>::decode(item.second, parsed) ? std::optional<T>(parsed)
                                                             : std::nullopt;
      }();
      if (!value) return refuse(fmt::format("{}{} is no {}", at, key, what));
      set(*value);
      return {};
    };
    if (key == "request_rate") {
      IC_RETURN_IF_ERROR(read(0.0, "number", [&](double v) { load.request_rate = v; }));
    } else if (key == "concurrency") {
      IC_RETURN_IF_ERROR(read(0.0, "number", [&](double v) { load.concurrency = v; }));
    } else if (key == "max_gpus") {
      IC_RETURN_IF_ERROR(
          read(std::int64_t{}, "whole number", [&](std::int64_t v) { load.max_gpus = v; }));
    } else if (key == "merge") {
      IC_RETURN_IF_ERROR(read(false, "boolean", [&](bool v) { out.merge = v; }));
    } else if (key == "strict") {
      IC_RETURN_IF_ERROR(read(false, "boolean", [&](bool v) { out.strict = v; }));
    } else if (key == "top_n") {
      IC_RETURN_IF_ERROR(
          read(std::size_t{}, "whole number", [&](std::size_t v) { out.top_n = v; }));
    } else if (key == "score") {
      out.score = ParseEnum<ScoredBy>(item.second.as<std::string>());
      if (!out.score) return refuse(at + "score is neither closed-loop nor formula");
    } else {
      return refuse(fmt::format("{}unknown key '{}'{}", at, key, DidYouMean(key, kKnown)));
    }
  }
  if (load.request_rate && load.concurrency) {
    return refuse("request_rate and concurrency are two loads: give one");
  }
  const double value = load.request_rate.value_or(load.concurrency.value_or(1));
  if (!(value > 0) || !std::isfinite(value)) return refuse("the load must be a positive number");
  if (load.max_gpus.value_or(1) < 1) return refuse("max_gpus must be at least 1");
  if (load.request_rate || load.concurrency) {
    out.load = load;
  } else if (load.max_gpus) {
    return refuse("max_gpus goes with request_rate or concurrency");
  }
  return {};
}

std::vector<std::string> Order(const YAML::Node& root, ExperimentFile& file) {
  std::vector<std::string> all;
  for (const auto& item : root) {
    auto key = item.first.as<std::string>();
    if (key != "exps" && key != kRunOptions) all.push_back(std::move(key));
  }
  const YAML::Node listed = root["exps"];
  if (!listed.IsDefined() || !listed.IsSequence()) return all;
  std::vector<std::string> order;
  for (const YAML::Node& item : listed) {
    const auto key = item.as<std::string>();
    if (std::ranges::find(all, key) != all.end()) {
      order.push_back(key);
    } else {
      file.notes.push_back(fmt::format("experiment '{}' is listed in exps but not defined{}", key,
                                       DidYouMean(key, all)));
    }
  }
  return order;
}

Status ReadExperiment(const std::string& name, const YAML::Node& node, const Lines& lines,
                      const ExperimentDefaults& defaults, ExperimentFile& file) {
  if (!node.IsMap()) {
    file.notes.push_back(fmt::format("experiment '{}' is left out: not a mapping", name));
    return {};
  }
  Result<Fields> fields = Fields();
  if (const bool nested = std::ranges::any_of(
          kNestedKeys, [&](std::string_view key) { return node[std::string(key)].IsDefined(); });
      nested) {
    std::size_t left = kMaxNestedFields;
    const Result<NestedFields> tree = Nested(node, lines, 1, left);
    fields = tree ? FlattenNested(*tree) : Result<Fields>(std::unexpected(tree.error()));
    file.notes.push_back(
        fmt::format("experiment '{}' has the older nested form; write flat fields instead", name));
  } else {
    fields = FlatFields(node, lines);
  }
  if (!fields) {
    file.broken.emplace_back(name, fields.error());
    return {};
  }
  if (const std::string why = Incomplete(*fields); !why.empty()) {
    file.notes.push_back(fmt::format("experiment '{}' is left out: {}", name, why));
    return {};
  }
  Result<Task> task = MakeTask(*std::move(fields), defaults);
  if (!task) {
    file.broken.emplace_back(name, task.error());
    return {};
  }
  file.experiments.push_back({name, *std::move(task)});
  return {};
}

std::string Quoted(const std::string& text) {
  YAML::Emitter emitter;
  emitter << text;
  return emitter.c_str();
}

std::string Text(const FieldValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *d);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
  }
  if (const auto* s = std::get_if<std::string>(&value)) return Quoted(*s);
  std::string list;
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t i : *integers) list += fmt::format("\n- {}", i);
  } else {
    for (const std::string& s : std::get<std::vector<std::string>>(value)) {
      list += "\n- " + Quoted(s);
    }
  }
  return list;
}

}  // namespace

Result<ExperimentFile> ParseExperiments(std::string_view text, std::string_view name,
                                        const ExperimentDefaults& defaults) {
  IC_ASSIGN(const YAML::Node root, Load(text, name));
  const Lines lines{text.find('\n') != std::string_view::npos};
  ExperimentFile file;
  try {
    IC_RETURN_IF_ERROR(ReadRunOptions(root[kRunOptions], lines, name, file.options));
    for (const std::string& key : Order(root, file)) {
      IC_RETURN_IF_ERROR(ReadExperiment(key, root[key], lines, defaults, file));
    }
  } catch (const YAML::Exception& e) {
    return Fail(ErrorKind::kYaml, fmt::format("{}: {}", name, e.what()));
  }
  if (file.experiments.empty()) {
    std::string why;
    for (const auto& [experiment, error] : file.broken) {
      why += fmt::format("; {}: {}", experiment, error.message);
    }
    for (const std::string& note : file.notes) why += "; " + note;
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} holds no experiment that can be run{}", name, why));
  }
  return file;
}

Result<ExperimentFile> ReadExperiments(const std::string& path,
                                       const ExperimentDefaults& defaults) {
  IC_ASSIGN(const std::string text, ReadTextFile(path));
  return ParseExperiments(text, path, defaults);
}

Result<Task> ParseTask(std::string_view text) {
  IC_ASSIGN(const YAML::Node root, Load(text, "task"));
  try {
    IC_ASSIGN(Fields fields, FlatFields(root, Lines{true}));
    return MakeTask(std::move(fields), {});
  } catch (const YAML::Exception& e) {
    return Fail(ErrorKind::kYaml, e.what());
  }
}

std::string FormatExperimentOptions(const ExperimentOptions& options) {
  const ExperimentOptions standard;
  std::string text;
  const auto add = [&](const char* key, const FieldValue& value) {
    text += fmt::format("  {}: {}\n", key, Text(value));
  };
  if (options.load) {
    if (options.load->request_rate) add("request_rate", *options.load->request_rate);
    if (options.load->concurrency) add("concurrency", *options.load->concurrency);
    if (options.load->max_gpus) add("max_gpus", *options.load->max_gpus);
  }
  if (options.merge != standard.merge) add("merge", options.merge);
  if (options.strict != standard.strict) add("strict", options.strict);
  if (options.top_n != standard.top_n) add("top_n", static_cast<std::int64_t>(options.top_n));
  if (options.score == ScoredBy::kFormula) {
    add("score", std::string(ToString(options.score)));
  }
  return text.empty() ? text : fmt::format("{}:\n{}", kRunOptions, text);
}

std::string FormatTask(const Task& task) {
  std::string out;
  for (const TaskField& field : TaskFields()) {
    const std::string value = Text(field.get(task));
    out += fmt::format("{}:{}{}\n", field.name, value.starts_with('\n') ? "" : " ", value);
  }
  return out;
}

}  // namespace infercast
