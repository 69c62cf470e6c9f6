// Runs another program to its end, without a shell.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace infercast {

struct SubprocessOptions {
  std::vector<std::string> arguments;  // [0] is the program, looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's
  std::filesystem::path log;      // receives standard output and standard error
  std::function<void()> on_tick;  // called about five times a second while it runs; may be empty
};

// Exit code of the program (128 + signal number when a signal ended it). Standard input is empty.
// kIo when it cannot be started.
Result<int> RunSubprocess(const SubprocessOptions& options);

}  // namespace infercast
