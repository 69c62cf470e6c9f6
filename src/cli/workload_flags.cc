#include "cli/workload_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/compare_systems.h"
#include "cli/search_session.h"
#include "report/csv.h"
#include "report/mix_report.h"
#include "search/workload_mix.h"

namespace infercast {

void WorkloadMixFlags::Declare(CLI::App& command) {
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
  std::vector<WorkloadKind> kinds;
  if (flags.workloads) {
    IC_ASSIGN(kinds, ParseWorkloads(*flags.workloads));
  }
  if (flags.file) {
    IC_ASSIGN(std::vector<WorkloadKind> own, ReadWorkloads(*flags.file));
    kinds.insert(kinds.end(), own.begin(), own.end());
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
