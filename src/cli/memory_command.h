// `infercast memory`: what fills a GPU, and what its KV cache holds.
#pragma once

#include "cli/cli_context.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

void AddMemoryCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
