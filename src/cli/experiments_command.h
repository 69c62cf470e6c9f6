// infercast run FILE: the experiments that a file describes.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct CliContext;

void AddRunCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
