#include "cli/calibrate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "cli/deployment_flags.h"
#include "cli/measured_flags.h"
#include "validation/calibration_report.h"

namespace infercast {

namespace {

struct CalibrateFlags {
  MeasuredFlags measured;
  std::string output;
};

Result<int> Run(const CalibrateFlags& flags, const CliContext& context) {
  IC_ASSIGN(MeasuredFile file, flags.measured.Read());
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(const ValidateOptions options, flags.measured.Options(context));
  for (const std::string& warning : file.warnings) context.Note("note: " + warning);
  const std::vector<ValidatedRow> rows =
      ValidatePoints(std::move(file.points), around.systems, around.checkpoints, options);
  const CalibrationRun run = CalibrateRows(rows);
  if (run.profile.factors.empty()) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("none of the {} measured points can be forecast, so nothing can be "
                            "calibrated; validate tells why",
                            rows.size()));
  }
  CalibrationProfile profile = run.profile;
  profile.created_from = std::filesystem::path(flags.measured.files.front()).filename().string();
  profile.program = "infercast " INFERCAST_VERSION;
  IC_RETURN_IF_ERROR(WriteTextFile(flags.output, ProfileToJson(profile)));
  if (context.json) {
    context.Print(CalibrationJson(run, flags.output));
  } else if (context.csv) {
    context.Print(CalibrationCsv(run));
  } else {
    context.Print(CalibrationText(run));
    context.Note("note: profile written to " + flags.output);
  }
  return kExitAnswer;
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, CliContext& context) {
  CLI::App& command = *app.add_subcommand(
      "calibrate", "Learn one TTFT and one TPOT factor per deployment family from measured points");
  auto flags = std::make_shared<CalibrateFlags>();
  flags->measured.Declare(command);
  command.add_option("-o,--output", flags->output, "Calibration profile to write")->required();
  OnRun(command, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
