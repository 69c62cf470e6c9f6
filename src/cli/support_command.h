// `infercast support`: what can be answered, computed.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddSupportCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
