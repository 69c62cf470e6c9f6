#include "cli/compare_systems.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cli/search_session.h"
#include "search/standard_runs.h"

namespace infercast {
namespace {

std::vector<std::string> SystemsOf(const SearchFlags& search) {
  std::vector<std::string> names;
  std::string_view left = search.deployment.database.system;
  while (true) {
    const std::string name(left.substr(0, left.find(',')));
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    if (left.find(',') == left.npos) return names;
    left.remove_prefix(left.find(',') + 1);
  }
}

// Adds what was found on one system; names say which.
void Append(ExperimentsResult part, const std::string& system, ExperimentsResult& all) {
  const auto named = [&](const std::string& name) { return name + "_" + system; };
  const ExperimentResult* best = all.Find(all.chosen);
  const ExperimentResult* rival = part.Find(part.chosen);
  const bool better = rival != nullptr &&
                      (best == nullptr || (best->exceeded && !rival->exceeded) ||
                       (best->exceeded == rival->exceeded && rival->best_value > best->best_value));
  if (better) all.chosen = named(part.chosen);
  all.options = part.options;
  all.options.merge = false;  // systems stay apart
  for (ExperimentResult& result : part.results) {
    result.name = named(result.name);
    all.results.push_back(std::move(result));
  }
  for (ExperimentOutcome& outcome : part.outcomes) {
    outcome.name = named(outcome.name);
    all.outcomes.push_back(std::move(outcome));
  }
}

}  // namespace

bool NamesSeveralSystems(const SearchFlags& search) {
  return search.deployment.database.system.find(',') != std::string::npos;
}

Result<int> CompareSystems(const SearchFlags& search, const LoadFlags& load, std::int64_t gpus,
                           bool bounded, bool nextn_given, const SearchOutputFlags& output,
                           const CliContext& context) {
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  const std::vector<std::string> systems = SystemsOf(search);
  if (systems.empty()) return Fail(ErrorKind::kUsage, "--system names no system");
  for (const std::string& system : systems) {  // a slip of the pen is no lack of measurements
    IC_ASSIGN(const auto root, around.systems.RootOf(system));
    static_cast<void>(root);
  }
  Workbench bench(around.systems, around.checkpoints);
  const ThreadLimit limit(output.threads);
  SearchSession session(context, bench);
  SearchReportOptions report;
  ExperimentsResult all;
  std::vector<std::string> unanswered;
  std::optional<Error> first_error;
  for (const std::string& system : systems) {
    if (SearchSession::interrupted()) break;
    SearchFlags one = search;
    one.deployment.database.system = system;
    IC_ASSIGN(RunRequest request, one.Request(context, output.top_n));
    IC_ASSIGN(request.score, output.Score(context));
    const auto run = [&]() -> Result<ExperimentsResult> {
      if (load.given()) {
        report.load = LoadTarget{load.request_rate, load.concurrency, load.max_gpus};
        return RunRecommend(request, *report.load, nextn_given, bench);
      }
      IC_ASSIGN(StandardExperiments standard, MakeExperiments(request, gpus, bench));
      std::ranges::move(standard.notes, std::back_inserter(report.notes));
      if (!bounded) {
        for (Experiment& e : standard.experiments) e.task.total_gpus.reset();
      }
      ExperimentOptions options;
      options.top_n = output.top_n;
      options.strict = request.strict;
      options.score = request.score;
      return RunExperiments(standard.experiments, options, bench);
    };
    Result<ExperimentsResult> part = run();
    if (part) {
      Append(*std::move(part), system, all);
      continue;
    }
    unanswered.push_back(fmt::format("{}: {}", system, part.error().message));
    if (!first_error) first_error = std::move(part.error());
  }
  if (all.outcomes.empty() && first_error) {
    return session.Finish(Result<int>(std::unexpected(*std::move(first_error))));
  }
  IC_ASSIGN(const ExperimentsResult result,
            session.Finish(Result<ExperimentsResult>(std::move(all))));
  for (std::string& text : unanswered) report.notes.push_back("no answer for " + std::move(text));
  if (!load.given() && !bounded) {
    report.notes.emplace_back(
        "no --gpus given: figures are those of one replica, whatever its size");
  }
  return PrintSearch(result, std::move(report), output, context, /*comparison_only=*/true);
}

}  // namespace infercast
