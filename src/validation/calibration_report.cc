#include "validation/calibration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "validation/csv.h"
#include "validation/families.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

FigureScore ScoreOf(std::vector<double> ratios) {
  FigureScore s;
  s.rows = static_cast<std::int64_t>(ratios.size());
  if (ratios.empty()) return s;
  std::vector<double> apes;
  for (const double r : ratios) apes.push_back(100 * std::abs(r - 1));
  std::ranges::sort(ratios);
  std::ranges::sort(apes);
  for (const double ape : apes) s.mape += ape / static_cast<double>(apes.size());
  s.median_ape = SortedQuantile(apes, 0.5);
  s.bias = 100 * (SortedQuantile(ratios, 0.5) - 1);
  return s;
}

ordered_json ScoreJson(const FigureScore& ttft, const FigureScore& tpot) {
  return {{"ttft_mape_percent", ttft.mape},
          {"ttft_median_ape_percent", ttft.median_ape},
          {"tpot_mape_percent", tpot.mape},
          {"tpot_median_ape_percent", tpot.median_ape}};
}

}  // namespace

CalibrationRun CalibrateRows(std::span<const ValidatedRow> rows) {
  std::vector<CalibrationSample> samples;
  for (const ValidatedRow& row : rows) {
    if (!row.answered() || row.measured.copy || row.measured.hidden_speculation) continue;
    const CalibrationQuery query = QueryOf(row.measured);
    CalibrationSample s;
    s.family = query.family;
    s.isl = query.isl;
    s.osl = query.osl;
    s.concurrency = query.concurrency;
    s.measured_ttft = row.measured.point.ttft_ms.value_or(0);
    s.measured_tpot = row.measured.point.tpot_ms.value_or(0);
    s.predicted_ttft = row.ttft_ms;
    s.predicted_tpot = row.tpot_ms;
    samples.push_back(std::move(s));
  }
  CalibrationRun run;
  run.points = static_cast<std::int64_t>(samples.size());
  const std::vector<FactorPair> factors = LeaveOneOutFactors(samples);
  run.profile = Calibrate(samples, factors);
  std::vector<double> ttft, tpot, ttft_left, tpot_left;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const CalibrationSample& s = samples[i];
    if (s.measured_ttft > 0) {
      ttft.push_back(s.predicted_ttft / s.measured_ttft);
      ttft_left.push_back(ttft.back() * factors[i].ttft);
    }
    if (s.measured_tpot > 0) {
      tpot.push_back(s.predicted_tpot / s.measured_tpot);
      tpot_left.push_back(tpot.back() * factors[i].tpot);
    }
  }
  run.ttft_before = ScoreOf(std::move(ttft));
  run.tpot_before = ScoreOf(std::move(tpot));
  run.ttft_left_one_out = ScoreOf(std::move(ttft_left));
  run.tpot_left_one_out = ScoreOf(std::move(tpot_left));
  return run;
}

std::string CalibrationText(const CalibrationRun& run) {
  std::string text =
      fmt::format("{} measured points, {} families\n", run.points, run.profile.factors.size());
  const auto line = [&](const char* name, const FigureScore& ttft, const FigureScore& tpot) {
    text +=
        fmt::format("  {:<34} TTFT {:6.1f}% (median {:5.1f}%)   TPOT {:6.1f}% (median {:5.1f}%)\n",
                    name, ttft.mape, ttft.median_ape, tpot.mape, tpot.median_ape);
  };
  line("error as forecast", run.ttft_before, run.tpot_before);
  line("each point from the others", run.ttft_left_one_out, run.tpot_left_one_out);
  text += fmt::format("\n{:>6} {:>7} {:>7} {:>12} {:>12}  {}\n", "points", "TTFT x", "TPOT x",
                      "TTFT left", "TPOT left", "family");
  for (const CalibrationFactor& f : run.profile.factors) {
    const auto left = [&](double CalibrationFactor::Confidence::* figure) {
      return f.left_one_out ? fmt::format("{:.1f}%", (*f.left_one_out).*figure) : std::string("-");
    };
    text += fmt::format("{:>6} {:>7.3f} {:>7.3f} {:>12} {:>12}  {}\n", f.points, f.ttft, f.tpot,
                        left(&CalibrationFactor::Confidence::ttft_median_ape),
                        left(&CalibrationFactor::Confidence::tpot_median_ape), f.family.Text());
  }
  text +=
      "\nx: factor on the forecast; left: median error of each point predicted from the others\n";
  return text;
}

std::string CalibrationCsv(const CalibrationRun& run) {
  std::string out =
      "mode,backend,version,system,model,precision,source,points,ttft_factor,tpot_factor,"
      "left_one_out_ttft_median_ape_percent,left_one_out_tpot_median_ape_percent\n";
  for (const CalibrationFactor& f : run.profile.factors) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},", f.family.mode, CsvCell(f.family.backend),
                       CsvCell(f.family.version), CsvCell(f.family.system), CsvCell(f.family.model),
                       CsvCell(f.family.precision), CsvCell(f.family.source), f.points, f.ttft,
                       f.tpot);
    out += f.left_one_out ? fmt::format("{},{}\n", f.left_one_out->ttft_median_ape,
                                        f.left_one_out->tpot_median_ape)
                          : ",\n";
  }
  return out;
}

std::string CalibrationJson(const CalibrationRun& run, const std::string& file) {
  ordered_json json = ordered_json::parse(ProfileToJson(run.profile));
  return ordered_json{{"profile", file},
                      {"points", run.points},
                      {"as_forecast", ScoreJson(run.ttft_before, run.tpot_before)},
                      {"leave_one_out", ScoreJson(run.ttft_left_one_out, run.tpot_left_one_out)},
                      {"families", json["families"]}}
             .dump(2) +
         "\n";
}

}  // namespace infercast
