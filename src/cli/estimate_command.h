// infercast estimate: the forecast of one configuration.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddEstimateCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
