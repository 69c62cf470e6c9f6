// What serving costs beside the GPU's operators: named constants with the range within which
// measurements leave them. Residues, not laws: every one can be set by the user.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"
#include "serving/step_costs.h"

namespace infercast {

struct ServingCorrections {
  // Added to every TTFT: client, HTTP, tokeniser, launch of the first step, way back. ms.
  double first_token_ms = 0;
  // The same, in decode steps of the run: iterations between a prompt's step and its first piece.
  double first_token_steps = 0;
  // Serial front end: a request reaches the scheduler so much after the later of its sending and
  // its predecessor's arrival. ms per 1000 prompt tokens.
  double front_end_ms_per_1000 = 0;
  // Disaggregated: from prefill to decode worker. ms per 1000 prompt tokens.
  double transfer_ms_per_1000 = 0;
  StepCorrections step;
};

// One constant: its name on the command line, its fitted value and the range over the fits that
// left a quarter of the measured groups out.
struct CorrectionFacts {
  std::string_view name;
  std::string_view meaning;
  double ServingCorrections::* member = nullptr;
  double StepCorrections::* step_member = nullptr;
};
std::span<const CorrectionFacts> CorrectionNames();

struct FittedRange {
  double value = 0, low = 0, high = 0;
};
// In the order of CorrectionNames().
std::span<const FittedRange> FittedCorrections(Backend backend, bool disaggregated);

// The fitted values.
ServingCorrections DefaultCorrections(Backend backend, bool disaggregated);
// Everything zero or one: the bare composition of operators.
inline ServingCorrections NoCorrections() { return {}; }

// Sets one by name. kUnknownName, kInvalidArgument for a value below 0, above 1e6 or none.
Status SetCorrection(ServingCorrections& corrections, std::string_view name, double value);
double GetCorrection(const ServingCorrections& corrections, const CorrectionFacts& facts);

}  // namespace infercast
