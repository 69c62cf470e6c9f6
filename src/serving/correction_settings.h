// Corrections that a user sets, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serving/corrections.h"

namespace infercast {

// "name=value" texts. kUnknownName, kInvalidArgument.
using CorrectionSettings = std::vector<std::pair<std::string, double>>;
Result<CorrectionSettings> ParseCorrections(const std::vector<std::string>& texts);
Status ApplyCorrections(const CorrectionSettings& settings, ServingCorrections& corrections);

}  // namespace infercast
