// infercast ops query FILE: the price of single operators.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddOpsCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
