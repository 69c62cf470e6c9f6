// The Pareto plot as a picture: one SVG document that follows a dark or light surrounding.
#pragma once

#include <string>
#include <string_view>

#include "report/plot_data.h"

namespace infercast {

// Text for XML: markup escaped, control characters and malformed UTF-8 replaced.
std::string XmlEscaped(std::string_view text);

// Points carry their configuration as a tooltip (<title>). 960 by 600 units.
std::string SvgPlot(const PlotData& data);

}  // namespace infercast
