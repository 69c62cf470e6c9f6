// From what a search found to what plots draw: points, fronts' breakdowns by operator, and the
// command that repeats each point.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/cost.h"
#include "report/plot_data.h"
#include "search/experiments.h"

namespace infercast {

struct PlotOptions {
  std::string title;  // "": the model's name
  GpuPrices prices;   // empty: no costs are shown
  std::vector<std::string> notes;
  std::string more_flags;             // appended to every command: choices that rows do not tell
  std::size_t most_points = 2000;     // fronts and picks stay, of the rest an even selection
  std::size_t most_breakdowns = 400;  // points of fronts and picks with a breakdown; 0: none
};

// Points of all experiments. Series are told apart by mode, and by backend and system where there
// are several.
PlotData PlotOf(const ExperimentsResult& result, const PlotOptions& options);

// `infercast estimate ...` that gives the figures of `row`; "" for what estimate cannot describe.
std::string EstimateCommand(const TaskRow& row, const Task& task);

// One word of a command line, quoted for a POSIX shell where needed.
std::string ShellWord(const std::string& word);

}  // namespace infercast
