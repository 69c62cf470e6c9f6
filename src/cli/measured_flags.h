// The options that name measured points and how they are forecast, shared by validate and
// calibrate.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "validation/benchmark_results.h"
#include "validation/calibration.h"
#include "validation/validation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct MeasuredFlags {
  std::vector<std::string> files;
  BenchmarkDeployment deployment;        // of result files that do not say
  std::vector<std::string> corrections;  // name=value
  bool bare = false;
  bool no_recipes = false;

  void Declare(CLI::App& command);
  // All files' points. kIo, kInvalidArgument.
  Result<MeasuredFile> Read() const;
  // Everything but a calibration profile.
  Result<ValidateOptions> Options(const CliContext& context) const;
};

// kIo, kInvalidArgument.
Result<CalibrationProfile> ReadProfile(const std::string& path);

}  // namespace infercast
