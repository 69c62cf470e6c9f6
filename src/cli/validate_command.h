// infercast validate: scores forecasts against measured points.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct CliContext;
void AddValidateCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
