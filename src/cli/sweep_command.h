// infercast sweep: the best ways to serve a model on some GPUs.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct CliContext;

void AddSweepCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
