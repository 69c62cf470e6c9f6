#include "cli/plot_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/files.h"
#include "report/html_page.h"
#include "report/plot_results.h"
#include "report/plot_terminal.h"
#include "report/svg_plot.h"

namespace infercast {

void PlotFlags::Declare(CLI::App& command) {
  command.add_flag("--plot", plot, "Draw the Pareto front in the terminal")
      ->group("Plots and cost");
  command.add_option("--html", html, "Write an interactive page (one file, no network)")
      ->option_text("FILE")
      ->group("Plots and cost");
  command.add_option("--svg", svg, "Write the plot as a picture")
      ->option_text("FILE")
      ->group("Plots and cost");
  command
      .add_option("--gpu-hour-price", gpu_hour_price,
                  "Price of a GPU hour, for cost per token and request: 2.5 or "
                  "h100_sxm=2.5,h200_sxm=3.1")
      ->option_text("PRICE")
      ->group("Plots and cost");
  command
      .add_option("--price-file", price_file,
                  "YAML mapping of systems to prices of a GPU hour (also `currency`, `default`)")
      ->option_text("FILE")
      ->group("Plots and cost");
}

Result<GpuPrices> PlotFlags::Prices() const {
  GpuPrices prices;
  if (price_file) {
    IC_ASSIGN(prices, ReadPriceFile(*price_file));
  }
  if (gpu_hour_price) {
    IC_ASSIGN(const GpuPrices given, ParseGpuPrices(*gpu_hour_price));
    if (given.any) prices.any = given.any;
    for (const auto& [system, price] : given.by_system) prices.by_system[system] = price;
  }
  return prices;
}

Status DrawPlots(const ExperimentsResult& result, const PlotFlags& flags, const GpuPrices& prices,
                 const CliContext& context) {
  const bool terminal = flags.plot && !context.json && !context.csv;
  if (!terminal && !flags.html && !flags.svg) return {};
  PlotOptions options;
  options.prices = prices;
  if (!prices.empty()) {
    options.notes.emplace_back(
        "Costs are those of replicas that run at the shown rate; GPUs that idle cost more.");
  }
  if (!flags.html) options.most_breakdowns = 0;
  const PlotData data = PlotOf(result, options);
  if (terminal) context.Print("\n" + TerminalPlot(data, StyleOfStandardOutput()));
  if (flags.html) {
    IC_RETURN_IF_ERROR(WriteTextFile(*flags.html, HtmlPage(data)));
    context.Note(fmt::format("wrote {} ({} points)", *flags.html, data.points.size()));
  }
  if (flags.svg) {
    IC_RETURN_IF_ERROR(WriteTextFile(*flags.svg, SvgPlot(data)));
    context.Note(fmt::format("wrote {}", *flags.svg));
  }
  return {};
}

}  // namespace infercast
