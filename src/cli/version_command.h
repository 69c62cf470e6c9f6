// infercast version: the program's version and the data package it is made for.
#pragma once

#include "cli/cli_context.h"

namespace infercast {

void AddVersionCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
