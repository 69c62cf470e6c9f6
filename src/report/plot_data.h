// What every plot draws: deployments as points of speed per user and throughput per GPU.
//
// Plots know nothing of a search; whoever has results turns them into these plain structs. Texts
// may come from outside (model names, folders): each drawing escapes them for its own medium.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace infercast {

// Where the time of one phase goes ("step with prefill", "decode step", ...).
struct PlotOperator {
  std::string name;
  double ms = 0;
  std::string bound;  // "62 % of bandwidth"; "" = not known
};
struct PlotPhase {
  std::string name;
  std::vector<PlotOperator> operators;  // in execution order
};

struct PlotPoint {
  std::string series;    // what is compared: a line of its own in each plot
  std::string system;    // "h100_sxm"; both systems where the pools differ
  std::string backend;   // "trtllm"
  std::string mode;      // "agg", "disagg", "afd"
  std::string parallel;  // layout, "tp2pp1dp1etp1ep1"
  double tokens_s_user = 0;
  double tokens_s_gpu = 0;
  double ttft_ms = 0;
  double tpot_ms = 0;
  double concurrency = 0;
  std::int64_t gpus = 0;  // of one replica
  bool picked = false;    // one of the recommended configurations
  // More to tell (memory, cost, batch sizes ...): label and value as they are shown.
  std::vector<std::pair<std::string, std::string>> facts;
  std::string command;            // repeats this point; "" = none
  std::vector<PlotPhase> phases;  // empty: the breakdown is not known
};

struct PlotData {
  std::string title;
  std::string subtitle;                  // workload and targets
  std::optional<double> tpot_target_ms;  // drawn as a limit of speed per user
  std::vector<std::string> notes;        // what a reader must know of the figures
  std::vector<PlotPoint> points;
};

// Names of the series in order of first appearance.
std::vector<std::string> SeriesOf(const PlotData& data);

// Positions in `data.points` of the non-dominated points of one series, ascending in speed per
// user.
std::vector<std::uint32_t> FrontOf(const PlotData& data, const std::string& series);

// An axis from zero to a round number not less than `largest`, with at most about `ticks` marks.
struct PlotAxis {
  double end = 1;
  double step = 1;
};
PlotAxis AxisFor(double largest, int ticks);

// A mark of an axis as short as the step allows: "0", "250", "0.5", "12k".
std::string TickText(double value, double step);

}  // namespace infercast
