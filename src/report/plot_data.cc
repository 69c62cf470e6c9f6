// Fronts and axes shared by all plots.
#include "report/plot_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "search/pareto.h"

namespace infercast {

std::vector<std::string> SeriesOf(const PlotData& data) {
  std::vector<std::string> names;
  for (const PlotPoint& p : data.points) {
    if (std::ranges::find(names, p.series) == names.end()) names.push_back(p.series);
  }
  return names;
}

std::vector<std::uint32_t> FrontOf(const PlotData& data, const std::string& series) {
  std::vector<FrontPoint> figures;
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < data.points.size(); ++i) {
    const PlotPoint& p = data.points[i];
    if (p.series != series) continue;
    figures.push_back({p.tokens_s_user, p.tokens_s_gpu});
    positions.push_back(i);
  }
  std::vector<std::uint32_t> front = ParetoFront(figures, true, true);
  for (std::uint32_t& i : front) i = positions[i];
  return front;
}

PlotAxis AxisFor(double largest, int ticks) {
  if (!std::isfinite(largest) || largest <= 0) return {};
  const double rough = largest / std::max(ticks, 1);
  const double unit = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * unit;
  for (const double multiple : {1.0, 2.0, 5.0}) {
    if (multiple * unit >= rough * (1 - 1e-9)) {
      step = multiple * unit;
      break;
    }
  }
  return {step * std::ceil(largest / step - 1e-9), step};
}

std::string TickText(double value, double step) {
  if (value != 0 && step >= 1000) {
    return fmt::format("{:.{}f}k", value / 1000, std::fmod(step, 1000) == 0 ? 0 : 1);
  }
  int decimals = 0;
  for (double s = step; decimals < 6 && std::abs(s - std::round(s)) > 1e-6; s *= 10) ++decimals;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace infercast
