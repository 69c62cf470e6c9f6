// Experiment files: a YAML mapping of names to task fields, in the flat form or in the older nested
// one, which is converted. (JSON is YAML.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "search/experiments.h"
#include "search/task_fields.h"

namespace infercast {

// How the experiments of a file are run; what is absent is left to whoever runs them. A file says
// it under the name `infercast`, which is no experiment:
//   infercast: {request_rate: 12.0, max_gpus: 64, merge: true, strict: false, top_n: 5,
//              score: formula}
// with request_rate or concurrency (or neither) as the load to size for.
struct ExperimentFileOptions {
  std::optional<LoadTarget> load;
  std::optional<bool> merge, strict;
  std::optional<std::size_t> top_n;
  std::optional<ScoredBy> score;
};

struct ExperimentFile {
  std::vector<Experiment> experiments;
  ExperimentFileOptions options;
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

// `name` is shown in messages. kInvalidArgument for options of the run that are none; kYaml when
// the text is no mapping, kInvalidArgument when no experiment is left.
Result<ExperimentFile> ParseExperiments(std::string_view text, std::string_view name,
                                        const ExperimentDefaults& defaults);
// kIo, and the errors of ParseExperiments.
Result<ExperimentFile> ReadExperiments(const std::string& path, const ExperimentDefaults& defaults);

// One task from a mapping of its fields.
Result<Task> ParseTask(std::string_view text);

// The options of a run as the file's section, "" when none is set.
std::string FormatExperimentOptions(const ExperimentOptions& options);

// The fields of a task as YAML, in their usual order; what is not set is null.
std::string FormatTask(const Task& task);

}  // namespace infercast
