// infercast calibrate: factors of deployment families from measured points.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct CliContext;
void AddCalibrateCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
