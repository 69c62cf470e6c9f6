// `infercast completion SHELL` and `infercast manual`.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddCompletionCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
