#include "cli/validate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files.h"
#include "cli/deployment_flags.h"
#include "cli/measured_flags.h"
#include "validation/report.h"

namespace infercast {

namespace {

struct ValidateFlags {
  MeasuredFlags measured;
  std::optional<std::string> calibration;
  std::optional<std::string> html;
};

Result<int> Run(const ValidateFlags& flags, const CliContext& context) {
  IC_ASSIGN(MeasuredFile file, flags.measured.Read());
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(ValidateOptions options, flags.measured.Options(context));
  std::optional<CalibrationProfile> profile;
  if (flags.calibration) {
    IC_ASSIGN(profile, ReadProfile(*flags.calibration));
    options.calibration = &*profile;
  }
  for (const std::string& warning : file.warnings) context.Note("note: " + warning);
  const std::vector<ValidatedRow> rows =
      ValidatePoints(std::move(file.points), around.systems, around.checkpoints, options);
  const std::string& name = flags.measured.files.front();
  if (flags.html) {
    IC_RETURN_IF_ERROR(WriteTextFile(*flags.html, ValidationHtml(rows, name)));
    context.Note("note: scatter plots in " + *flags.html);
  }
  if (context.json) {
    context.Print(ValidationJson(rows, name));
  } else if (context.csv) {
    context.Print(ValidationCsv(rows));
  } else {
    context.Print(ValidationText(rows));
  }
  return kExitAnswer;
}

}  // namespace

void AddValidateCommand(CLI::App& app, CliContext& context) {
  CLI::App& command =
      *app.add_subcommand("validate", "Score forecasts against measured serving benchmarks");
  auto flags = std::make_shared<ValidateFlags>();
  flags->measured.Declare(command);
  command.add_option("--calibration", flags->calibration,
                     "Profile written by calibrate: show raw and calibrated figures");
  command.add_option("--html", flags->html, "Also write a page of scatter plots to this file");
  OnRun(command, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
