// infercast recommend: the fewest GPUs that serve a load.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct CliContext;

void AddRecommendCommand(CLI::App& app, CliContext& context);

}  // namespace infercast
