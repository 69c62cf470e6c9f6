#include "cli/experiments_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/cli_context.h"
#include "cli/deployment_flags.h"
#include "cli/search_flags.h"
#include "cli/search_output.h"
#include "cli/search_session.h"
#include "search/experiment_file.h"
#include "search/experiments.h"

namespace infercast {

namespace {

struct RunFlags {
  std::string file;
  std::optional<std::string> attention_backend;
  std::optional<std::string> forward_model;
  bool strict = false;
  bool allow_unlisted = false;
  SearchOutputFlags output;
};

// `top_given`: --top-n was.
Result<int> Run(const RunFlags& flags, bool top_given, const CliContext& context) {
  ExperimentDefaults defaults;
  defaults.behaviour = context.behaviour;
  defaults.allow_unlisted_versions = flags.allow_unlisted;
  if (flags.attention_backend) {
    defaults.fields.emplace_back("attention_backend", *flags.attention_backend);
  }
  if (flags.forward_model) defaults.fields.emplace_back("forward_model", *flags.forward_model);
  Result<ExperimentFile> read = ReadExperiments(flags.file, defaults);
  if (!read) {
    Error error = std::move(read.error());
    // The user's own file: a slip of the pen, not damaged data.
    if (error.kind == ErrorKind::kYaml) error.kind = ErrorKind::kInvalidArgument;
    return std::unexpected(std::move(error));
  }
  ExperimentFile file = *std::move(read);
  SearchReportOptions report;
  report.notes = std::move(file.notes);
  for (const auto& [name, error] : file.broken) {
    report.notes.push_back(fmt::format("experiment {} is left out: {}", name, error.message));
  }
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  Workbench bench(around.systems, around.checkpoints);
  if (context.behaviour == Behaviour::kReference) {
    IC_RETURN_IF_ERROR(CheckVersions(file.experiments, bench));
  }
  const ThreadLimit limit(flags.output.threads);
  SearchSession session(context, bench);
  ExperimentOptions options;
  options.top_n = top_given ? flags.output.top_n : file.options.top_n.value_or(flags.output.top_n);
  if (context.behaviour == Behaviour::kNative) IC_RETURN_IF_ERROR(CheckTopN(options.top_n));
  options.strict = flags.strict || file.options.strict.value_or(false);
  options.merge = file.options.merge.value_or(false);
  options.load = report.load = file.options.load;
  IC_ASSIGN(options.score, flags.output.Score(context));
  if (!flags.output.score && file.options.score == ScoredBy::kFormula) {
    options.score = ScoredBy::kFormula;
  }
  IC_ASSIGN(const ExperimentsResult result,
            session.Finish(RunExperiments(file.experiments, options, bench)));
  return PrintSearch(result, std::move(report), flags.output, context);
}

}  // namespace

void AddRunCommand(CLI::App& app, CliContext& context) {
  CLI::App& command = *app.add_subcommand("run", "Run the experiments that a YAML file describes");
  command.alias("exp");
  auto flags = std::make_shared<RunFlags>();
  command.add_option("file,--yaml-path", flags->file, "Experiment file (YAML or JSON)")->required();
  command.add_option("--attention-backend", flags->attention_backend,
                     "Attention kernel of experiments that name none");
  command.add_option("--forward-model", flags->forward_model,
                     "op_level or fpm, for experiments that name none");
  command.add_flag("--strict,--strict-sla", flags->strict, "Leave out what misses the targets");
  command.add_flag("--allow-unlisted-versions", flags->allow_unlisted,
                   "Accept versions that are measured but not offered");
  flags->output.Declare(command);
  DeclareIgnored(command);
  OnRun(command, context,
        [flags, &command, &context] { return Run(*flags, command.count("--top-n") > 0, context); });
}

}  // namespace infercast
