// Experiment files: a YAML mapping of names to task fields, in the flat form or in the older nested
// one, which is converted. (JSON is YAML.)
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "search/experiments.h"
#include "search/task_fields.h"

namespace infercast {

struct ExperimentFile {
  std::vector<Experiment> experiments;
  // Experiments that were left out, and old forms that were converted: for people.
  std::vector<std::string> notes;
  // Experiments whose fields do not make a task.
  std::vector<std::pair<std::string, Error>> broken;
};

struct ExperimentDefaults {
  // Fields of every experiment that does not set them itself.
  std::vector<std::pair<std::string, FieldValue>> fields;
  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted_versions = false;
};

// `name` is shown in messages. kYaml when the text is no mapping, kInvalidArgument when no
// experiment is left.
Result<ExperimentFile> ParseExperiments(std::string_view text, std::string_view name,
                                        const ExperimentDefaults& defaults);
// kIo, and the errors of ParseExperiments.
Result<ExperimentFile> ReadExperiments(const std::string& path, const ExperimentDefaults& defaults);

// One task from a mapping of its fields.
Result<Task> ParseTask(std::string_view text);

// The fields of a task as YAML, in their usual order; what is not set is null.
std::string FormatTask(const Task& task);

}  // namespace infercast
