// A file of measured points against the forecast: each row's answer with its notes, and scores by
// the groups that matter.
//
// APE is |predicted / measured - 1|; MAPE its mean. A few rows that are not what they say can rule
// a mean, so the median stands beside it, always.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint.h"
#include "serving/closed_loop.h"
#include "serving/uncertainty.h"
#include "tables/versions.h"
#include "validation/calibration.h"
#include "validation/measured_point.h"
#include "validation/prepared_point.h"
#include "validation/repairs.h"

namespace infercast {

struct ValidatedRow {
  RepairedPoint measured;
  std::optional<ServingForecast> forecast;
  std::optional<Error> error;  // answerable, but not answered
  std::vector<std::string> notes;
  ForecastKind kind;
  // As forecast, and after a calibration profile where one applies.
  double ttft_ms = 0, tpot_ms = 0;
  std::optional<double> calibrated_ttft_ms, calibrated_tpot_ms;

  bool answered() const { return forecast.has_value(); }
  double best_ttft_ms() const { return calibrated_ttft_ms.value_or(ttft_ms); }
  double best_tpot_ms() const { return calibrated_tpot_ms.value_or(tpot_ms); }
};

struct ValidateOptions {
  PrepareOptions prepare;
  // Corrections of a backend; default: the fitted ones.
  std::function<ServingCorrections(Backend, bool disaggregated)> corrections;
  const CalibrationProfile* calibration = nullptr;
};

// Every row, in the file's order. Deterministic for any number of threads.
std::vector<ValidatedRow> ValidatePoints(std::vector<MeasuredPoint> points,
                                         const SystemsCatalog& systems,
                                         const CheckpointSearch& checkpoints,
                                         const ValidateOptions& options);

// Errors of one figure over some rows, percent.
struct FigureScore {
  std::int64_t rows = 0;
  double mape = 0, median_ape = 0;
  double bias = 0;             // of the median ratio predicted/measured, from 0
  double within_interval = 0;  // rows whose measured value lies in the forecast's p10-p90
};
struct GroupScore {
  std::string name;
  std::int64_t rows = 0, answerable = 0, answered = 0;
  FigureScore ttft, tpot;
  double answered_percent() const {
    return answerable == 0
               ? 0
               : 100.0 * static_cast<double>(answered) / static_cast<double>(answerable);
  }
};

// Which rows a score counts.
struct ScoreScope {
  bool copies = false;       // also copies of another row's measurement
  bool speculation = false;  // also rows marked as speculating in secret
  bool aggregated = true, disaggregated = true;
};
GroupScore Score(std::span<const ValidatedRow> rows, const ScoreScope& scope,
                 std::string name = "overall",
                 const std::function<bool(const ValidatedRow&)>& keep = {});

enum class ScoreDimension : std::uint8_t { kMode, kBackend, kSystem, kModel, kConcurrency };
template <>
struct EnumNames<ScoreDimension> {
  static constexpr std::string_view kType = "dimension";
  static constexpr std::array<std::string_view, 5> kNames = {"mode", "backend", "system", "model",
                                                             "concurrency"};
};
// One score per value that occurs, sorted by name (concurrency: by size).
std::vector<GroupScore> ScoreBy(std::span<const ValidatedRow> rows, const ScoreScope& scope,
                                ScoreDimension dimension);

}  // namespace infercast
