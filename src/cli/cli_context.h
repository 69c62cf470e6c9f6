// What all subcommands share: the global options, how results and errors reach the user, and the
// exit codes.
//
// A subcommand is one file pair with one function, Add<Name>Command(CLI::App&, CliContext&), that
// declares its options and ends with OnRun(...). main.cc calls these functions and nothing else.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// Exit codes of the program. They are part of its interface: scripts depend on them.
enum ExitCode : int {
  kExitAnswer = 0,
  kExitNoFeasibleConfig = 1,
  kExitUsage = 2,
  kExitNotMeasured = 3,
  kExitInvalidConfig = 4,
  kExitDoesNotFit = 5,
  kExitCorruptData = 6,
  kExitIo = 7,
  kExitInternal = 70,
  kExitInterrupted = 130,
};

ExitCode ExitCodeFor(ErrorKind kind);

struct CliContext {
  // Global options; valid on the command line before and after the subcommand.
  bool json = false;
  bool csv = false;
  bool quiet = false;  // no progress, no notes; results and errors only
  Behaviour behaviour = Behaviour::kNative;
  std::optional<std::string> systems_paths;

  std::FILE* out = stdout;  // results
  std::FILE* err = stderr;  // errors, notes, progress

  // Chosen by the parsed subcommand. Its value is the exit code.
  std::function<Result<int>()> action;

  // Writes a result as it is.
  void Print(std::string_view text) const;
  // Writes one line for people, unless --quiet.
  void Note(std::string_view line) const;
};

// Declares --json, --csv, --quiet, --behaviour and --systems-paths on the program. Must come before
// the subcommands, which inherit that these may follow them.
void AddGlobalOptions(CLI::App& app, CliContext& context);

// `action` runs when `command` was the one on the command line.
void OnRun(CLI::App& command, CliContext& context, std::function<Result<int>()> action);

// Parses the command line, runs the chosen action and reports an error in the form asked for:
// a line on `err`, and with --json also {"error": {...}} on `out`. Returns the exit code.
int RunCommandLine(CLI::App& app, CliContext& context, int argc, const char* const* argv);

}  // namespace infercast
