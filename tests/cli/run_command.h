// Test helper: runs a command line with everything it prints caught.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cli/cli_context.h"

namespace infercast::testing {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

// `arguments` without the program's name; `add` declares the subcommands under test.
inline Outcome RunCommand(std::vector<const char*> arguments,
                          const std::function<void(CLI::App&, CliContext&)>& add) {
  char* out = nullptr;
  char* err = nullptr;
  std::size_t out_size = 0;
  std::size_t err_size = 0;
  CliContext context;
  context.out = open_memstream(&out, &out_size);
  context.err = open_memstream(&err, &err_size);
  CLI::App app("test", "infercast");
  AddGlobalOptions(app, context);
  add(app, context);
  arguments.insert(arguments.begin(), "infercast");
  Outcome outcome;
  outcome.exit_code =
      RunCommandLine(app, context, static_cast<int>(arguments.size()), arguments.data());
  std::fclose(context.out);
  std::fclose(context.err);
  outcome.out = std::string(out, out_size);
  outcome.err = std::string(err, err_size);
  std::free(out);
  std::free(err);
  return outcome;
}

}  // namespace infercast::testing
