// infercast data fetch|list|verify|path: the measured data on this machine.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddDataCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
