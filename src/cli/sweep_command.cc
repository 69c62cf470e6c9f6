#include "cli/sweep_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cli_context.h"
#include "cli/compare_systems.h"
#include "cli/load_search.h"
#include "cli/search_flags.h"
#include "cli/search_output.h"
#include "cli/search_session.h"
#include "cli/workload_flags.h"
#include "search/standard_runs.h"

namespace infercast {

namespace {

// Without a cluster size replicas may have any size that a search would give a cluster of this one.
constexpr std::int64_t kUnboundedGpus = 1024;

struct SweepFlags {
  SearchFlags search;
  SearchOutputFlags output;
  std::optional<std::int64_t> gpus;
  LoadFlags load;
  WorkloadMixFlags mix;
};

Result<int> Run(const SweepFlags& flags, bool nextn_given, const CliContext& context) {
  if (flags.load.given()) {
    if (flags.gpus) {
      return Fail(ErrorKind::kUsage,
                  "--gpus gives the size of the cluster, --target-request-rate and "
                  "--target-concurrency ask for it: give one of them");
    }
    context.Note("note: a load is given, not a cluster: this is `infercast recommend`");
    return RunLoadSearch(flags.search, flags.load, nextn_given, flags.output, context);
  }
  if (!flags.gpus && context.behaviour == Behaviour::kReference) {
    return Fail(ErrorKind::kUsage,
                "give --gpus (size of the cluster), or a load: --target-request-rate or "
                "--target-concurrency");
  }
  if (flags.gpus && *flags.gpus < 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("--gpus is {}: expected at least 1", *flags.gpus));
  }
  if (!flags.gpus && (flags.search.serving_mode == "afd" || flags.search.serving_mode == "all")) {
    return Fail(ErrorKind::kUsage, "attention/FFN disaggregation fills whole nodes: give --gpus");
  }
  if (flags.mix.given()) {
    return RunMix(flags.mix, flags.search, flags.gpus, flags.output, context);
  }
  if (NamesSeveralSystems(flags.search)) {
    return CompareSystems(flags.search, flags.load, flags.gpus.value_or(kUnboundedGpus),
                          flags.gpus.has_value(), nextn_given, flags.output, context);
  }
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(RunRequest request, flags.search.Request(context, flags.output.top_n));
  Workbench bench(around.systems, around.checkpoints);
  const ThreadLimit limit(flags.output.threads);
  SearchSession session(context, bench);
  IC_ASSIGN(StandardExperiments standard,
            MakeExperiments(request, flags.gpus.value_or(kUnboundedGpus), bench));
  SearchReportOptions report;
  report.notes = std::move(standard.notes);
  if (!flags.gpus) {
    report.notes.push_back("no --gpus given: figures are those of one replica, whatever its size");
    for (Experiment& e : standard.experiments) e.task.total_gpus.reset();
  }
  ExperimentOptions options;
  options.top_n = flags.output.top_n;
  options.strict = request.strict;
  IC_ASSIGN(options.score, flags.output.Score(context));
  options.merge = true;
  IC_ASSIGN(const ExperimentsResult result,
            session.Finish(RunExperiments(standard.experiments, options, bench)));
  return PrintSearch(result, std::move(report), flags.output, context);
}

}  // namespace

void AddSweepCommand(CLI::App& app, CliContext& context) {
  CLI::App& command =
      *app.add_subcommand("sweep", "Find the best ways to serve a model on a number of GPUs");
  command.alias("default");
  auto flags = std::make_shared<SweepFlags>();
  command.add_option("--gpus,--total-gpus", flags->gpus,
                     "GPUs of the cluster (default: replicas of any size)");
  flags->search.Declare(command, /*pools=*/true);
  flags->load.Declare(command, /*in_sweep=*/true);
  flags->mix.Declare(command);
  flags->output.Declare(command);
  OnRun(command, context,
        [flags, &command, &context] { return Run(*flags, command.count("--nextn") > 0, context); });
}

}  // namespace infercast
