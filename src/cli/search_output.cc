#include "cli/search_output.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/near_names.h"
#include "cli/interrupt.h"
#include "cli/named_option.h"
#include "report/csv.h"
#include "report/html_page.h"
#include "report/parquet.h"
#include "report/plot_results.h"
#include "report/svg_plot.h"
#include "report/system_comparison.h"
#include "search/experiment_file.h"

namespace infercast {

namespace {

// A name as that of a folder: what a path would read as more than a name is replaced.
std::string FolderName(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '\\' || c == '\0'; }, '_');
  return name == "." || name == ".." || name.empty() ? "_" + name : name;
}

// Everything that the run was, as an experiment file with a comment on how to repeat it.
std::string RunFileOf(const ExperimentsResult& result, const SearchReportOptions& options,
                      const SearchOutputFlags& flags) {
  std::string text = fmt::format(
      "# Written by infercast {}. Repeats this run:\n#   infercast run run.yaml{}{}\n",
      INFERCAST_VERSION, options.behaviour == Behaviour::kReference ? " --behaviour reference" : "",
      flags.inclusive_tpot ? " --inclusive-tpot" : "");
  const std::string how = FormatExperimentOptions(result.options);
  if (!how.empty()) text += "\n" + how;
  for (const ExperimentOutcome& o : result.outcomes) {
    text += fmt::format("\n\"{}\":\n", o.name);
    std::istringstream fields(FormatTask(o.task));
    for (std::string line; std::getline(fields, line);) text += "  " + line + "\n";
  }
  return text;
}

// The experiments' notes. Where there are several, each says whose it is; a text that several have
// stands once.
void AddNotes(const std::vector<ExperimentOutcome>& outcomes, std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::vector<std::string>>> owners;
  for (const ExperimentOutcome& o : outcomes) {
    for (const std::string& note : o.table.notes) {
      auto at = std::ranges::find(owners, note, [](const auto& owner) { return owner.first; });
      if (at == owners.end()) at = owners.insert(owners.end(), {note, {}});
      if (std::ranges::find(at->second, o.name) == at->second.end()) at->second.push_back(o.name);
    }
  }
  for (const auto& [note, names] : owners) {
    const bool all = names.size() == outcomes.size() && names.size() > 2;
    const std::string whose = outcomes.size() < 2 ? ""
                              : all               ? "all experiments: "
                                                  : JoinNames(names) + ": ";
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(whose + note);
  }
}

// One folder per experiment with its best configurations, its front and its resolved task.
Status Save(const ExperimentsResult& result, const SearchReportOptions& options,
            const SearchOutputFlags& flags, const std::filesystem::path& folder) {
  std::error_code problem;
  const auto make = [&](const std::filesystem::path& path) -> Status {
    std::filesystem::create_directories(path, problem);
    if (problem) {
      return Fail(ErrorKind::kIo,
                  fmt::format("cannot create {}: {}", path.string(), problem.message()));
    }
    return {};
  };
  IC_RETURN_IF_ERROR(make(folder));
  for (const ExperimentResult& r : result.results) {
    const std::filesystem::path own = folder / FolderName(r.name);
    IC_RETURN_IF_ERROR(make(own));
    ExperimentsResult one;
    one.results = {r};
    one.outcomes = result.outcomes;
    IC_RETURN_IF_ERROR(WriteTextFile(own / "best_config_topn.csv",
                                     CsvOf(SearchTable(one, options, ReportRows::kBest))));
    IC_RETURN_IF_ERROR(
        WriteTextFile(own / "pareto.csv", CsvOf(SearchTable(one, options, ReportRows::kFront))));
  }
  for (const ExperimentOutcome& o : result.outcomes) {
    const std::filesystem::path own = folder / FolderName(o.name);
    IC_RETURN_IF_ERROR(make(own));
    IC_RETURN_IF_ERROR(WriteTextFile(own / "exp_config.yaml", FormatTask(o.task)));
  }
  IC_ASSIGN(const GpuPrices prices, flags.plots.Prices());
  if (ComparesSystems(result) || !prices.empty()) {
    IC_RETURN_IF_ERROR(WriteTextFile(folder / "comparison.csv",
                                     CsvOf(SystemComparison(result, {prices, options.load}))));
  }
  IC_RETURN_IF_ERROR(
      WriteParquet(SearchTable(result, options, ReportRows::kAll), folder / "results.parquet"));
  PlotOptions plot;
  plot.prices = prices;
  const PlotData points = PlotOf(result, plot);
  IC_RETURN_IF_ERROR(WriteTextFile(folder / "pareto_frontier.svg", SvgPlot(points)));
  IC_RETURN_IF_ERROR(WriteTextFile(folder / "pareto_frontier.html", HtmlPage(points)));
  IC_RETURN_IF_ERROR(WriteTextFile(folder / "run.yaml", RunFileOf(result, options, flags)));
  return WriteTextFile(folder / "results.json", SearchJson(result, options, ReportRows::kBest));
}

}  // namespace

void SearchOutputFlags::Declare(CLI::App& command) {
  command.add_option("--top-n,--top", top_n, "Best configurations shown per experiment")
      ->capture_default_str();
  command.add_option("--rows", rows, "Rows of --csv and --json: best, front (Pareto) or all")
      ->capture_default_str();
  command.add_option("--score", score,
                     "What the rows that are shown are ranked by: closed-loop (benchmark runs in "
                     "virtual time; the default but for reference behaviour) or formula");
  command.add_flag("--inclusive-tpot", inclusive_tpot,
                   "Show the time per output token over all tokens, the first included");
  command.add_option("--save-dir", save_dir,
                     "Folder for results (CSV, JSON, Parquet, plots) and run.yaml, which "
                     "`infercast run` repeats");
  plots.Declare(command);
  command.add_option("--threads", threads, "Threads of the search (default: all)");
}

Result<ScoredBy> ScoreAsked(const std::optional<std::string>& score, const CliContext& context) {
  if (!score) return DefaultScore(context.behaviour);
  IC_ASSIGN(const ScoredBy by, ParseNamed<ScoredBy>(*score));
  if (context.behaviour != Behaviour::kNative && by == ScoredBy::kClosedLoop) {
    return Fail(ErrorKind::kUsage, "--score closed-loop goes with the native behaviour only");
  }
  return by;
}

Result<int> PrintSearch(const ExperimentsResult& result, SearchReportOptions options,
                        const SearchOutputFlags& flags, const CliContext& context,
                        bool comparison_only) {
  IC_ASSIGN(const ReportRows rows, ParseNamed<ReportRows>(flags.rows));
  IC_ASSIGN(const GpuPrices prices, flags.plots.Prices());
  const ComparisonOptions comparison{prices, options.load};
  const bool compares = ComparesSystems(result) || !prices.empty();
  options.inclusive_tpot = flags.inclusive_tpot;
  options.behaviour = context.behaviour;
  AddNotes(result.outcomes, options.notes);
  for (const std::string& note : options.notes) context.Note("note: " + note);
  if (context.json) {
    context.Print(SearchJson(result, options, rows));
  } else if (context.csv) {
    context.Print(CsvOf(comparison_only && rows == ReportRows::kBest
                            ? SystemComparison(result, comparison)
                            : SearchTable(result, options, rows)));
  } else {
    if (compares) context.Print(SystemComparisonText(result, comparison));
    if (!comparison_only) context.Print((compares ? "\n" : "") + SearchText(result, options));
  }
  if (InterruptGuard::requested().load()) {
    // Files are read later, by people who no longer know that the search was cut short.
    const bool files = flags.save_dir || flags.plots.html || flags.plots.svg;
    context.Note(fmt::format("interrupted: this is the best of what was searched{}",
                             files ? "; no file was written" : ""));
    return kExitInterrupted;
  }
  IC_RETURN_IF_ERROR(DrawPlots(result, flags.plots, prices, context));
  if (flags.save_dir) {
    IC_RETURN_IF_ERROR(Save(result, options, flags, *flags.save_dir));
    context.Note(fmt::format("saved in {}", *flags.save_dir));
  }
  return AnyMeetsTarget(result) ? kExitAnswer : kExitNoFeasibleConfig;
}

}  // namespace infercast
