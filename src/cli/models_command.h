// `infercast models [NAME]`: lists the models, explains one.
#pragma once

#include "cli/cli_context.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

void AddModelsCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
