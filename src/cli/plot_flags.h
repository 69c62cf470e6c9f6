// The options that show results in other ways than tables: plots in the terminal, as SVG and as an
// HTML page, and what deployments cost.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "cli/cli_context.h"
#include "report/cost.h"
#include "search/experiments.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct PlotFlags {
  bool plot = false;
  std::optional<std::string> html, svg;
  std::optional<std::string> gpu_hour_price, price_file;

  void Declare(CLI::App& command);
  // Of both options; --gpu-hour-price wins where both name a system. Empty without either.
  Result<GpuPrices> Prices() const;
};

// Draws what was asked for. The terminal plot goes where results go, and only there where people
// read: neither with --json nor with --csv. kIo.
Status DrawPlots(const ExperimentsResult& result, const PlotFlags& flags, const GpuPrices& prices,
                 const CliContext& context);

}  // namespace infercast
