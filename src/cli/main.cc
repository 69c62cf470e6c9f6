// The infercast program: registers the subcommands, one file each, and runs the one asked for.
#include <CLI/CLI.hpp>

#include "cli/calibrate_command.h"
#include "cli/cli_context.h"
#include "cli/completion_command.h"
#include "cli/data_command.h"
#include "cli/estimate_command.h"
#include "cli/experiments_command.h"
#include "cli/memory_command.h"
#include "cli/models_command.h"
#include "cli/ops_command.h"
#include "cli/recommend_command.h"
#include "cli/support_command.h"
#include "cli/sweep_command.h"
#include "cli/validate_command.h"
#include "cli/version_command.h"

int main(int argc, char** argv) {
  infercast::CliContext context;
  CLI::App app("Forecasts how fast a large language model will be served", "infercast");
  app.set_version_flag("--version", "infercast " INFERCAST_VERSION);
  infercast::AddGlobalOptions(app, context);
  infercast::AddCalibrateCommand(app, context);
  infercast::AddDataCommand(app, context);
  infercast::AddEstimateCommand(app, context);
  infercast::AddSweepCommand(app, context);
  infercast::AddRecommendCommand(app, context);
  infercast::AddRunCommand(app, context);
  infercast::AddMemoryCommand(app, context);
  infercast::AddModelsCommand(app, context);
  infercast::AddOpsCommand(app, context);
  infercast::AddSupportCommand(app, context);
  infercast::AddValidateCommand(app, context);
  infercast::AddVersionCommand(app, context);
  infercast::AddCompletionCommand(app, context);
  return infercast::RunCommandLine(app, context, argc, argv);
}
