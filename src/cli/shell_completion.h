// Completion scripts for bash, zsh and fish, and the manual page, from the outline of the commands.
#pragma once

#include <span>
#include <string>

#include "cli/command_outline.h"

namespace infercast {

std::string BashCompletion(std::span<const CommandOutline> commands);
std::string ZshCompletion(std::span<const CommandOutline> commands);
std::string FishCompletion(std::span<const CommandOutline> commands);

// roff source of infercast(1). `version` is the program's.
std::string ManualPage(std::span<const CommandOutline> commands, const std::string& version);

}  // namespace infercast
