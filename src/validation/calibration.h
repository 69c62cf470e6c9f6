// Calibration: what a handful of measured points of a deployment family says about all of it.
//
// Method: a family is one backend, system, model, number format, software version and source of
// measurements. Its factor is the median of log(measured / predicted), shrunk by n / (n + 1) for n
// points. Confidence is the error that is left when each point is predicted from the others.
// Nothing is applied silently: results show the raw and the calibrated figure, and families that
// the profile does not know stay as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

struct CalibrationFamily {
  std::string backend, system, model, precision, version, source;
  std::string mode = "agg";
  bool operator==(const CalibrationFamily&) const = default;
  auto operator<=>(const CalibrationFamily&) const = default;
  std::string Text() const;
};

struct CalibrationFactor {
  CalibrationFamily family;
  double ttft = 1, tpot = 1;
  std::int64_t points = 0;
  // Scope: what the points covered.
  std::int64_t min_isl = 0, max_isl = 0, min_osl = 0, max_osl = 0;
  std::int64_t min_concurrency = 0, max_concurrency = 0;
  // Median and mean APE, percent, of each point predicted from the others; absent below two points.
  struct Confidence {
    double ttft_median_ape = 0, ttft_mape = 0, tpot_median_ape = 0, tpot_mape = 0;
  };
  std::optional<Confidence> left_one_out;
};

struct CalibrationProfile {
  std::string created_from;  // file name of the measured points
  std::string program;       // version of this program
  std::vector<CalibrationFactor> factors;
};

// One measured point against its forecast.
struct CalibrationSample {
  CalibrationFamily family;
  std::int64_t isl = 0, osl = 0, concurrency = 0;
  double measured_ttft = 0, predicted_ttft = 0;  // 0: not measured
  double measured_tpot = 0, predicted_tpot = 0;
};

// Families in sorted order.
CalibrationProfile Calibrate(const std::vector<CalibrationSample>& samples);

// Factors for samples[i] from the other samples of its family (1 where there is none).
struct FactorPair {
  double ttft = 1, tpot = 1;
};
std::vector<FactorPair> LeaveOneOutFactors(const std::vector<CalibrationSample>& samples);
// Calibrate, where these are known already.
CalibrationProfile Calibrate(const std::vector<CalibrationSample>& samples,
                             std::span<const FactorPair> left_out);

// What a forecast is asked for.
struct CalibrationQuery {
  CalibrationFamily family;  // empty version or source: any, if the profile has just one
  std::int64_t isl = 0, osl = 0, concurrency = 0;
};
// The factor that applies. kNoFeasibleConfig-like refusals are plain text: `why` says why none does
// (unknown family, lengths or concurrency more than twice beyond the measured ones).
const CalibrationFactor* FindFactor(const CalibrationProfile& profile,
                                    const CalibrationQuery& query, std::string* why = nullptr);

// JSON of schema 1. kInvalidArgument for a malformed or foreign document, with the key.
std::string ProfileToJson(const CalibrationProfile& profile);
Result<CalibrationProfile> ProfileFromJson(std::string_view text);

}  // namespace infercast
