// Calibrating from validated rows, and what it brought.
#pragma once

#include <span>
#include <string>

#include "validation/calibration.h"
#include "validation/validation.h"

namespace infercast {

struct CalibrationRun {
  CalibrationProfile profile;
  std::int64_t points = 0;  // distinct measurements used
  // Over all points: as forecast, and each predicted from the others of its family.
  FigureScore ttft_before, tpot_before, ttft_left_one_out, tpot_left_one_out;
};

// Uses answered rows, each measurement once; rows that speculate in secret are left out.
CalibrationRun CalibrateRows(std::span<const ValidatedRow> rows);

std::string CalibrationText(const CalibrationRun& run);
std::string CalibrationCsv(const CalibrationRun& run);
std::string CalibrationJson(const CalibrationRun& run, const std::string& file);

}  // namespace infercast
