#include "cli/recommend_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cli_context.h"
#include "cli/load_search.h"

namespace infercast {

namespace {

struct RecommendFlags {
  SearchFlags search;
  LoadFlags load;
  SearchOutputFlags output;
};

}  // namespace

void AddRecommendCommand(CLI::App& app, CliContext& context) {
  CLI::App& command = *app.add_subcommand("recommend", "Find the fewest GPUs that serve a load");
  auto flags = std::make_shared<RecommendFlags>();
  // A load is planned before everything is measured: estimates are welcome.
  flags->search.deployment.database.mode = std::string(ToString(DatabaseMode::kHybrid));
  flags->load.Declare(command, /*in_sweep=*/false);
  flags->search.Declare(command, /*pools=*/false);
  flags->output.Declare(command);
  OnRun(command, context, [flags, &command, &context] {
    return RunLoadSearch(flags->search, flags->load, command.count("--nextn") > 0, flags->output,
                         context);
  });
}

}  // namespace infercast
