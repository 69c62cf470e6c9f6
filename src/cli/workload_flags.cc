#include "cli/workload_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/compare_systems.h"
#include "cli/search_session.h"
#include "report/csv.h"
#include "report/mix_report.h"
#include "search/workload_mix.h"

namespace infercast {
namespace {

// Options of a sweep that a mix has no use for, and what there is instead.
struct Unheeded {
  std::vector<const char*> options;
  const char* instead;
};

const std::vector<Unheeded>& AllUnheeded() {
  static const std::vector<Unheeded> all = {
      {{"--isl", "--osl", "--prefix"}, "give isl, osl and prefix by workload in --workload-file"},
      {{"--image-height", "--image-width", "--num-images"}, "workloads of a mix have no images"},
      {{"--request-latency"},
       "give --ttft and --tpot, or ttft and tpot by workload in --workload-file"},
      {{"--plot", "--svg", "--html", "--save-dir"}, "redirect --json or --csv to a file"},
      {{"--rows"}, "--json and --csv have the best --top-n"},
      {{"--inclusive-tpot"}, "targets and figures leave the first token out"},
  };
  return all;
}

Status CheckHeeded(const CLI::App& command) {
  std::string given;
  for (const Unheeded& group : AllUnheeded()) {
    std::string names;
    for (const char* option : group.options) {
      if (command.count(option) > 0) names += (names.empty() ? "" : ", ") + std::string(option);
    }
    if (!names.empty()) {
      given += fmt::format("{}{} ({})", given.empty() ? "" : "; ", names, group.instead);
    }
  }
  if (given.empty()) return {};
  return Fail(ErrorKind::kUsage, "a mix of workloads goes without " + given);
}

}  // namespace

void WorkloadMixFlags::Declare(CLI::App& command) {
  declared_on = &command;
  std::string known;
  for (const WorkloadKind& preset : WorkloadPresets()) {
    known += (known.empty() ? "" : ", ") + preset.name;
  }
  command
      .add_option("--workload", workloads,
                  "Find the best single deployment for a mix: " + known +
                      "; with shares, e.g. chat=3,rag=1")
      ->option_text("LIST")
      ->group("Mix of workloads");
  command
      .add_option("--workload-file", file,
                  "YAML file with own workloads: name: {isl, osl, prefix_hit, share, ttft, tpot}")
      ->option_text("FILE")
      ->group("Mix of workloads");
}

Result<int> RunMix(const WorkloadMixFlags& flags, const SearchFlags& search,
                   std::optional<std::int64_t> gpus, const SearchOutputFlags& output,
                   const CliContext& context) {
  if (!gpus)
    return Fail(ErrorKind::kUsage, "a mix of workloads needs --gpus (size of the cluster)");
  if (NamesSeveralSystems(search)) {
    return Fail(ErrorKind::kUsage, "a mix of workloads is searched on one --system at a time");
  }
  IC_RETURN_IF_ERROR(CheckHeeded(*flags.declared_on));
  IC_RETURN_IF_ERROR(CheckTopN(output.top_n));
  if (search.serving_mode == "afd") {
    return Fail(
        ErrorKind::kUsage,
        "a mix of workloads is not searched with attention/FFN disaggregation: --mode auto, "
        "agg or disagg");
  }
  if (search.serving_mode == "all") {
    context.Note(
        "note: a mix of workloads is not searched with attention/FFN disaggregation: --mode auto");
  }
  std::vector<WorkloadKind> kinds;
  if (flags.workloads) {
    IC_ASSIGN(kinds, ParseWorkloads(*flags.workloads));
  }
  if (flags.file) {
    Result<std::vector<WorkloadKind>> own = ReadWorkloads(*flags.file);
    if (!own) {
      // The user's own file: a slip of the pen, not damaged data.
      if (own.error().kind == ErrorKind::kYaml) own.error().kind = ErrorKind::kInvalidArgument;
      return std::unexpected(std::move(own.error()));
    }
    kinds.insert(kinds.end(), own->begin(), own->end());
  }
  IC_ASSIGN(const GpuPrices prices, output.plots.Prices());
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(RunRequest request, search.Request(context, output.top_n));
  IC_ASSIGN(request.score, output.Score(context));
  Workbench bench(around.systems, around.checkpoints);
  const ThreadLimit limit(output.threads);
  SearchSession session(context, bench);
  IC_ASSIGN(const MixResult result, session.Finish(SearchMix(kinds, request, *gpus, bench)));
  for (const std::string& note : result.notes) context.Note("note: " + note);
  if (context.json) {
    context.Print(MixJson(result, prices));
  } else if (context.csv) {
    context.Print(CsvOf(MixTable(result, prices)));
  } else {
    context.Print(MixText(result, prices));
  }
  return SearchSession::interrupted() ? kExitInterrupted : kExitAnswer;
}

}  // namespace infercast
