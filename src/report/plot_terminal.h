// The Pareto plot of a terminal: throughput per GPU against speed per user, in braille dots (two by
// four to a cell) or in plain letters.
#pragma once

#include <string>

#include "report/plot_data.h"

namespace infercast {

struct TerminalPlotStyle {
  int width = 80;       // columns of the whole plot; at least 40 are used
  int height = 20;      // rows of the drawing itself
  bool unicode = true;  // braille and line drawing; else ASCII letters
  bool colour = false;  // ANSI colours, one a series
};

// What standard output can show: its width (80 where unknown), UTF-8 by the locale of the
// environment, colours on a terminal unless NO_COLOR is set to anything but "" or TERM is "dumb".
TerminalPlotStyle StyleOfStandardOutput();

// Lines that end with '\n'; a plot without points says so. Control characters in names are dropped.
std::string TerminalPlot(const PlotData& data, const TerminalPlotStyle& style);

}  // namespace infercast
