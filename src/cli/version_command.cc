// The version subcommand.
#include "cli/version_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tables/data_package.h"

namespace infercast {

void AddVersionCommand(CLI::App& app, CliContext& context) {
  CLI::App& version = *app.add_subcommand("version", "Versions of the program and of its data");
  OnRun(version, context, [&context]() -> Result<int> {
    const DataPackagePin& pin = PinnedDataPackage();
    if (context.json) {
      const nlohmann::ordered_json json = {
          {"infercast", INFERCAST_VERSION},
          {"data", {{"distribution", pin.distribution}, {"version", pin.version}}}};
      context.Print(json.dump(2) + "\n");
    } else {
      context.Print(fmt::format("infercast {} (data: {} {})\n", INFERCAST_VERSION, pin.distribution,
                                pin.version));
    }
    return kExitAnswer;
  });
}

}  // namespace infercast
