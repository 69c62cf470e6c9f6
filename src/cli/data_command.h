// infercast data fetch|list|verify|path: the measured data on this machine. The questions about its
// tables are in data_tables_command.h.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddDataCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
