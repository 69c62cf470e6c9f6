// The Pareto plot as a picture: one SVG document that follows a dark or light surrounding.
#pragma once

#include <string>

#include "report/plot_data.h"

namespace infercast {

// Points carry their configuration as a tooltip (<title>). 960 by 600 units.
std::string SvgPlot(const PlotData& data);

}  // namespace infercast
