#include "validation/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "validation/csv.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

constexpr std::array kDimensions = {ScoreDimension::kMode, ScoreDimension::kBackend,
                                    ScoreDimension::kSystem, ScoreDimension::kModel,
                                    ScoreDimension::kConcurrency};

double Ape(double predicted, std::optional<double> measured) {
  return measured && *measured > 0 ? 100 * std::abs(predicted / *measured - 1) : 0;
}

std::vector<std::string> NotesOf(const ValidatedRow& row) {
  std::vector<std::string> all = row.measured.repairs;
  all.insert(all.end(), row.notes.begin(), row.notes.end());
  return all;
}

std::string StatusOf(const ValidatedRow& row) {
  if (row.measured.unanswerable) return "unanswerable";
  return row.answered() ? "answered" : "failed";
}

std::string ReasonOf(const ValidatedRow& row) {
  if (row.measured.unanswerable) return *row.measured.unanswerable;
  return row.error ? row.error->message : std::string();
}

bool Calibrated(std::span<const ValidatedRow> rows) {
  return std::ranges::any_of(
      rows, [](const ValidatedRow& r) { return r.calibrated_ttft_ms.has_value(); });
}

// Figures of a score, rounded for reading; null where nothing was scored.
ordered_json ScoreJson(const GroupScore& s) {
  const auto figure = [](const FigureScore& f, double v) {
    return f.rows > 0 ? ordered_json(v) : ordered_json();
  };
  return {{"rows", s.rows},
          {"answerable_rows", s.answerable},
          {"answered_rows", s.answered},
          {"answered_percent", s.answered_percent()},
          {"ttft_mape_percent", figure(s.ttft, s.ttft.mape)},
          {"ttft_median_ape_percent", figure(s.ttft, s.ttft.median_ape)},
          {"ttft_bias_percent", figure(s.ttft, s.ttft.bias)},
          {"ttft_within_interval_percent", figure(s.ttft, s.ttft.within_interval)},
          {"tpot_mape_percent", figure(s.tpot, s.tpot.mape)},
          {"tpot_median_ape_percent", figure(s.tpot, s.tpot.median_ape)},
          {"tpot_bias_percent", figure(s.tpot, s.tpot.bias)},
          {"tpot_within_interval_percent", figure(s.tpot, s.tpot.within_interval)}};
}

// Scores after calibration are those of the best figures; without it, of the raw ones.
std::vector<ValidatedRow> Uncalibrated(std::span<const ValidatedRow> rows) {
  std::vector<ValidatedRow> raw(rows.begin(), rows.end());
  for (ValidatedRow& row : raw) row.calibrated_ttft_ms = row.calibrated_tpot_ms = std::nullopt;
  return raw;
}

std::string ScoreLine(const GroupScore& s) {
  if (s.answered == 0) {
    return fmt::format("{:<36} {:>6} {:>6.1f}%\n", s.name, s.answerable, s.answered_percent());
  }
  return fmt::format(
      "{:<36} {:>6} {:>6.1f}% {:>8.1f}% {:>7.1f}% {:>+7.1f}% {:>9.1f}% {:>7.1f}% {:>+7.1f}%\n",
      s.name.size() > 36 ? s.name.substr(0, 36) : s.name, s.answerable, s.answered_percent(),
      s.ttft.mape, s.ttft.median_ape, s.ttft.bias, s.tpot.mape, s.tpot.median_ape, s.tpot.bias);
}

std::vector<std::pair<std::string, ScoreScope>> OtherScopes(const ScoreScope& headline) {
  ScoreScope marked = headline, copies = headline, everything;
  marked.speculation = true;
  copies.copies = true;
  everything.copies = everything.speculation = true;
  ScoreScope distinct;
  return {{"with rows that speculate in secret", marked},
          {"with copies of measurements", copies},
          {"both modes", distinct},
          {"every row", everything}};
}

std::string ScopeText(const ScoreScope& scope) {
  std::string text = scope.aggregated && scope.disaggregated ? "aggregated and disaggregated"
                     : scope.aggregated                      ? "aggregated"
                                                             : "disaggregated";
  text += scope.copies ? " rows, copies included" : " rows, each measurement once";
  text += scope.speculation ? ", rows that speculate in secret included"
                            : ", without rows that speculate in secret";
  return text;
}

}  // namespace

ScoreScope HeadlineScope(std::span<const ValidatedRow> rows) {
  ScoreScope scope;
  const bool any = std::ranges::any_of(rows, [](const ValidatedRow& r) {
    return !r.measured.disaggregated && !r.measured.unanswerable;
  });
  scope.aggregated = any;
  scope.disaggregated = !any;
  return scope;
}

std::string ValidationText(std::span<const ValidatedRow> rows) {
  const ScoreScope scope = HeadlineScope(rows);
  std::string text = fmt::format("{} rows; scored: {}\n", rows.size(), ScopeText(scope));
  text += fmt::format("{:<36} {:>6} {:>7} {:>9} {:>8} {:>8} {:>10} {:>8} {:>8}\n", "", "rows",
                      "answer", "TTFT MAPE", "median", "bias", "TPOT MAPE", "median", "bias");
  text += ScoreLine(Score(rows, scope));
  if (Calibrated(rows)) {
    const std::vector<ValidatedRow> raw = Uncalibrated(rows);
    text += ScoreLine(Score(raw, scope, "before calibration"));
  }
  for (const auto& [name, other] : OtherScopes(scope)) text += ScoreLine(Score(rows, other, name));
  for (const ScoreDimension dimension : kDimensions) {
    text += fmt::format("\nby {}\n", ToString(dimension));
    ScoreScope by = scope;
    if (dimension == ScoreDimension::kMode) by.aggregated = by.disaggregated = true;
    for (const GroupScore& s : ScoreBy(rows, by, dimension)) text += ScoreLine(s);
  }
  const GroupScore all = Score(rows, {.copies = true, .speculation = true});
  if (all.answerable < all.rows) {
    std::map<std::string, int> reasons;
    for (const ValidatedRow& row : rows) {
      if (row.measured.unanswerable) ++reasons[*row.measured.unanswerable];
    }
    text += "\nnot answerable\n";
    for (const auto& [reason, n] : reasons) text += fmt::format("{:>6}  {}\n", n, reason);
  }
  std::map<std::string, int> failures;
  for (const ValidatedRow& row : rows) {
    if (row.error) ++failures[row.error->message];
  }
  if (!failures.empty()) text += "\nnot answered\n";
  for (const auto& [reason, n] : failures) text += fmt::format("{:>6}  {}\n", n, reason);
  return text;
}

std::string ValidationCsv(std::span<const ValidatedRow> rows) {
  std::string out =
      "line,id,status,mode,backend,version,system,model,precision,isl,osl,concurrency,"
      "measured_ttft_ms,predicted_ttft_ms,ttft_p10_ms,ttft_p90_ms,ttft_ape_percent,"
      "measured_tpot_ms,predicted_tpot_ms,tpot_p10_ms,tpot_p90_ms,tpot_ape_percent,"
      "calibrated_ttft_ms,calibrated_tpot_ms,copy,hidden_speculation,marks,notes\n";
  const auto number = [](std::optional<double> v) {
    return v ? fmt::format("{}", *v) : std::string();
  };
  for (const ValidatedRow& row : rows) {
    const MeasuredPoint& p = row.measured.point;
    std::vector<std::string> notes = NotesOf(row);
    if (const std::string reason = ReasonOf(row); !reason.empty()) {
      notes.insert(notes.begin(), reason);
    }
    out +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},", p.line, CsvCell(p.id), StatusOf(row),
                    row.measured.disaggregated ? "disagg" : "agg", CsvCell(p.backend),
                    CsvCell(p.version), CsvCell(p.system), CsvCell(p.model), CsvCell(p.precision),
                    p.isl.value_or(0), p.osl.value_or(0), row.measured.concurrency);
    const ForecastIntervals range = IntervalsOf(row.kind, row.best_ttft_ms(), row.best_tpot_ms());
    const auto figure = [&](std::optional<double> measured, double predicted,
                            const Interval& interval, double best) {
      if (!row.answered()) return number(measured) + ",,,,";
      return fmt::format("{},{},{},{},{}", number(measured), predicted, interval.low, interval.high,
                         measured ? fmt::format("{}", Ape(best, measured)) : std::string());
    };
    out += figure(p.ttft_ms, row.ttft_ms, range.ttft, row.best_ttft_ms()) + ",";
    out += figure(p.tpot_ms, row.tpot_ms, range.tpot, row.best_tpot_ms()) + ",";
    out += fmt::format("{},{},{},{},{},{}\n", number(row.calibrated_ttft_ms),
                       number(row.calibrated_tpot_ms), row.measured.copy ? 1 : 0,
                       row.measured.hidden_speculation ? 1 : 0,
                       CsvCell(fmt::format("{}", fmt::join(row.measured.marks, "; "))),
                       CsvCell(fmt::format("{}", fmt::join(notes, "; "))));
  }
  return out;
}

std::string ValidationJson(std::span<const ValidatedRow> rows, const std::string& file) {
  const ScoreScope scope = HeadlineScope(rows);
  const GroupScore everything = Score(rows, {.copies = true, .speculation = true});
  const GroupScore headline = Score(rows, scope);
  ordered_json overall = ScoreJson(headline);
  // Counts are those of the file; errors those of the scope.
  overall["rows"] = everything.rows;
  overall["answerable_rows"] = everything.answerable;
  overall["answered_rows"] = everything.answered;
  overall["answered_percent"] = everything.answered_percent();
  overall["scored_rows"] = headline.answered;
  overall["scope"] = ScopeText(scope);
  ordered_json json = {{"file", file}, {"overall", std::move(overall)}};
  if (Calibrated(rows)) {
    const std::vector<ValidatedRow> raw = Uncalibrated(rows);
    json["before_calibration"] = ScoreJson(Score(raw, scope));
  }
  for (const auto& [name, other] : OtherScopes(scope)) {
    json["scopes"][name] = ScoreJson(Score(rows, other));
  }
  for (const ScoreDimension dimension : kDimensions) {
    ScoreScope by = scope;
    if (dimension == ScoreDimension::kMode) by.aggregated = by.disaggregated = true;
    for (const GroupScore& s : ScoreBy(rows, by, dimension)) {
      json["by"][std::string(ToString(dimension))][s.name] = ScoreJson(s);
    }
  }
  ordered_json points = ordered_json::array();
  for (const ValidatedRow& row : rows) {
    const MeasuredPoint& p = row.measured.point;
    ordered_json j = {{"line", p.line}, {"id", p.id}, {"status", StatusOf(row)}};
    if (const std::string reason = ReasonOf(row); !reason.empty()) j["reason"] = reason;
    if (row.answered()) {
      const ForecastIntervals range = IntervalsOf(row.kind, row.best_ttft_ms(), row.best_tpot_ms());
      j["ttft_ms"] = row.ttft_ms;
      j["tpot_ms"] = row.tpot_ms;
      j["ttft_interval_ms"] = {range.ttft.low, range.ttft.high};
      j["tpot_interval_ms"] = {range.tpot.low, range.tpot.high};
      if (row.calibrated_ttft_ms) {
        j["calibrated_ttft_ms"] = *row.calibrated_ttft_ms;
        j["calibrated_tpot_ms"] = *row.calibrated_tpot_ms;
      }
    }
    if (p.ttft_ms) j["measured_ttft_ms"] = *p.ttft_ms;
    if (p.tpot_ms) j["measured_tpot_ms"] = *p.tpot_ms;
    if (row.measured.copy) j["copy"] = true;
    if (row.measured.hidden_speculation) j["hidden_speculation"] = true;
    if (!row.measured.marks.empty()) j["marks"] = row.measured.marks;
    if (std::vector<std::string> notes = NotesOf(row); !notes.empty()) j["notes"] = notes;
    points.push_back(std::move(j));
  }
  json["points"] = std::move(points);
  return json.dump(1) + "\n";
}

}  // namespace infercast
