// infercast data tables|show: what is measured, and the measured rows themselves.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

// Declares `tables` and `show` below the `data` command.
void AddDataTablesCommands(CLI::App& data, CliContext& context);

}  // namespace infercast
