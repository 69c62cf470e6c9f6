// Writing SVG by hand: a handful of shapes.
#include "report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/xml_text.h"

namespace infercast {
namespace {

constexpr double kWidth = 960, kHeight = 600;
constexpr double kLeft = 80, kRight = 24, kTop = 64, kBottom = 60;

// Okabe and Ito's colours, which most colour-blind readers tell apart; the first eight series.
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#8a6d00", "#56b4e9", "#7f3c8d", "#666666"};

std::string Tooltip(const PlotPoint& p) {
  std::string text = fmt::format(
      "{}: {}\n{:.2f} tokens/s per user, {:.2f} tokens/s per GPU\nTTFT {:.1f} ms, TPOT {:.2f} ms",
      p.series, p.parallel, p.tokens_s_user, p.tokens_s_gpu, p.ttft_ms, p.tpot_ms);
  for (const auto& [name, value] : p.facts) text += fmt::format("\n{}: {}", name, value);
  return XmlEscaped(text);
}

}  // namespace

std::string SvgPlot(const PlotData& data) {
  double largest_x = 0, largest_y = 0;
  for (const PlotPoint& p : data.points) {
    if (!std::isfinite(p.tokens_s_user) || !std::isfinite(p.tokens_s_gpu)) continue;
    largest_x = std::max(largest_x, p.tokens_s_user);
    largest_y = std::max(largest_y, p.tokens_s_gpu);
  }
  const PlotAxis x_axis = AxisFor(largest_x, 10);
  const PlotAxis y_axis = AxisFor(largest_y, 8);
  const double bottom = kHeight - kBottom;
  const auto x_of = [&](double v) { return kLeft + v / x_axis.end * (kWidth - kLeft - kRight); };
  const auto y_of = [&](double v) { return bottom - v / y_axis.end * (bottom - kTop); };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n<style>\n"
      "  .back {{ fill: #ffffff }} .ink {{ fill: #1c2330 }} .soft {{ fill: #5a6475 }}\n"
      "  .grid {{ stroke: #d9dee6 }} .axis {{ stroke: #5a6475 }} .limit {{ stroke: #b00020 }}\n"
      "  @media (prefers-color-scheme: dark) {{\n"
      "    .back {{ fill: #14181f }} .ink {{ fill: #e8ecf2 }} .soft {{ fill: #9aa5b5 }}\n"
      "    .grid {{ stroke: #2b323d }} .axis {{ stroke: #9aa5b5 }} .limit {{ stroke: #ff6b7a }}\n"
      "  }}\n</style>\n<rect class=\"back\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
      kWidth, kHeight, XmlEscaped(data.title), kWidth, kHeight);
  svg += fmt::format("<text class=\"ink\" x=\"{}\" y=\"26\" font-size=\"17\">{}</text>\n", kLeft,
                     XmlEscaped(data.title));
  svg += fmt::format("<text class=\"soft\" x=\"{}\" y=\"46\">{}</text>\n", kLeft,
                     XmlEscaped(data.subtitle));
  for (double v = 0; v <= x_axis.end * (1 + 1e-9); v += x_axis.step) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"soft\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x_of(v), kTop, bottom, bottom + 18, TickText(v, x_axis.step));
  }
  for (double v = 0; v <= y_axis.end * (1 + 1e-9); v += y_axis.step) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"soft\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, y_of(v), kLeft - 8, y_of(v) + 4, TickText(v, y_axis.step));
  }
  svg += fmt::format(
      "<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">"
      "tokens/s per user</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 16);
  svg += fmt::format(
      "<text class=\"ink\" text-anchor=\"middle\" transform=\"translate(20 {:.1f}) rotate(-90)\">"
      "tokens/s per GPU</text>\n",
      (kTop + bottom) / 2);
  if (data.tpot_target_ms && *data.tpot_target_ms > 0) {
    const double limit = 1000 / *data.tpot_target_ms;
    if (limit <= x_axis.end) {
      svg += fmt::format(
          "<line class=\"limit\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" "
          "stroke-dasharray=\"5 4\"><title>TPOT target {3} ms</title></line>\n",
          x_of(limit), kTop, bottom, *data.tpot_target_ms);
    }
  }
  const std::vector<std::string> series = SeriesOf(data);
  for (std::size_t s = 0; s < series.size(); ++s) {
    const char* colour = kColours[s % kColours.size()];
    std::string line;
    for (const std::uint32_t i : FrontOf(data, series[s])) {
      line += fmt::format("{:.1f},{:.1f} ", x_of(data.points[i].tokens_s_user),
                          y_of(data.points[i].tokens_s_gpu));
    }
    svg += fmt::format(
        "<g fill=\"{0}\" stroke=\"{0}\">\n<polyline points=\"{1}\" fill=\"none\" "
        "stroke-width=\"2\"/>\n",
        colour, line);
    for (const PlotPoint& p : data.points) {
      if (p.series != series[s] || !std::isfinite(p.tokens_s_user) ||
          !std::isfinite(p.tokens_s_gpu)) {
        continue;
      }
      const double x = x_of(p.tokens_s_user), y = y_of(p.tokens_s_gpu);
      if (p.picked) {
        svg += fmt::format(
            "<path class=\"picked\" d=\"M{:.1f} {:.1f}l8 8l-8 8l-8 "
            "-8z\"><title>{}</title></path>\n",
            x, y - 8, Tooltip(p));
      } else {
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill-opacity=\"0.45\" stroke=\"none\">"
            "<title>{}</title></circle>\n",
            x, y, Tooltip(p));
      }
    }
    svg += "</g>\n";
    const double y = kTop + 12 + 20 * static_cast<double>(s);
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/><text class=\"ink\" x=\"{:.1f}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kWidth - kRight - 8, y - 4, colour, kWidth - kRight - 20, y, XmlEscaped(series[s]));
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace infercast
