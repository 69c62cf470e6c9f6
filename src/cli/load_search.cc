#include "cli/load_search.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/compare_systems.h"
#include "cli/search_session.h"
#include "search/standard_runs.h"

namespace infercast {

void LoadFlags::Declare(CLI::App& command, bool in_sweep) {
  CLI::Option* rate = command.add_option("--target-request-rate,--request-rate", request_rate,
                                         "Load to serve: requests per second");
  CLI::Option* users = command.add_option("--target-concurrency,--concurrency", concurrency,
                                          "Load to serve: requests in flight");
  rate->excludes(users);
  if (in_sweep) {
    for (CLI::Option* option : {rate, users}) option->group("Instead of --gpus");
    return;
  }
  command.add_option("--max-gpus", max_gpus, "Serve as much of the load as this many GPUs can");
}

Result<int> RunLoadSearch(const SearchFlags& search, const LoadFlags& load, bool nextn_given,
                          const SearchOutputFlags& output, const CliContext& context) {
  if (!load.given()) {
    return Fail(ErrorKind::kUsage,
                "give the load to serve: --target-request-rate (requests per second) or "
                "--target-concurrency (requests in flight)");
  }
  if (load.request_rate) {
    IC_RETURN_IF_ERROR(CheckPositive(*load.request_rate, "--target-request-rate"));
  }
  if (load.concurrency) {
    IC_RETURN_IF_ERROR(CheckPositive(*load.concurrency, "--target-concurrency"));
  }
  if (load.max_gpus && *load.max_gpus < 1) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("--max-gpus is {}: expected at least 1", *load.max_gpus));
  }
  if (search.encoder_pool) {
    return Fail(ErrorKind::kUsage,
                "a load cannot be matched with a pool of encode workers: leave "
                "--encoder-pool out, or give --gpus instead of the load");
  }
  if (NamesSeveralSystems(search)) {
    return CompareSystems(search, load, 0, false, nextn_given, output, context);
  }
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(RunRequest request, search.Request(context, output.top_n));
  IC_ASSIGN(request.score, output.Score(context));
  Workbench bench(around.systems, around.checkpoints);
  const ThreadLimit limit(output.threads);
  SearchSession session(context, bench);
  const LoadTarget target{load.request_rate, load.concurrency, load.max_gpus};
  IC_ASSIGN(const ExperimentsResult result,
            session.Finish(RunRecommend(request, target, nextn_given, bench)));
  SearchReportOptions report;
  report.load = target;
  return PrintSearch(result, std::move(report), output, context);
}

}  // namespace infercast
