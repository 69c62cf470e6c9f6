#include "cli/measured_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cassert>

#include "base/files.h"
#include "serving/correction_settings.h"

namespace infercast {

void MeasuredFlags::Declare(CLI::App& command) {
  command
      .add_option("--measured", files,
                  "Measured points: CSV, or results of vllm bench serve, sglang.bench_serving, "
                  "GuideLLM or AIPerf (repeatable)")
      ->required();
  BenchmarkDeployment& d = deployment;
  command.add_option("--model,--model-path", d.model, "Model of results that do not name it");
  command.add_option("--system", d.system, "System of results that do not name it");
  command.add_option("--backend", d.backend, "Backend of results that do not name it");
  command.add_option("--backend-version", d.version, "Backend version of such results");
  command.add_option("--precision", d.precision, "Number format of such results: bf16, fp8, fp4");
  command.add_option("--isl", d.isl, "Input tokens, where results do not say");
  command.add_option("--osl", d.osl, "Output tokens, where results do not say");
  command.add_option("--concurrency", d.concurrency,
                     "Requests in flight, where results do not say");
  command.add_option("--tp-size,--tp", d.worker.tp, "Tensor parallelism, where results do not say");
  command.add_option("--pp-size,--pp", d.worker.pp, "Pipeline parallelism, likewise");
  command.add_option("--attention-dp-size,--dp", d.worker.dp, "Data parallelism, likewise");
  command.add_option("--moe-tp-size,--etp", d.worker.moe_tp, "Experts' tensor parallelism");
  command.add_option("--moe-ep-size,--ep", d.worker.moe_ep, "Expert parallelism");
  command.add_option("--correction", corrections,
                     "Set a correction, name=value (repeatable; see docs/accuracy.md)");
  command.add_flag("--no-corrections", bare, "Operators and scheduling alone, no fitted constants");
  command.add_flag("--no-recipes", no_recipes,
                   "Backend defaults instead of the public benchmark's launch flags");
}

Result<MeasuredFile> MeasuredFlags::Read() const {
  MeasuredFile all;
  for (const std::string& path : files) {
    IC_ASSIGN(const std::string text, ReadTextFile(path));
    Result<MeasuredFile> file = ParseMeasured(text, deployment);
    if (!file) {
      return Fail(file.error().kind, fmt::format("{}: {}", path, file.error().message));
    }
    for (MeasuredPoint& p : file->points) all.points.push_back(std::move(p));
    for (const std::string& w : file->warnings) all.warnings.push_back(path + ": " + w);
  }
  return all;
}

Result<ValidateOptions> MeasuredFlags::Options(const CliContext& context) const {
  ValidateOptions options;
  options.prepare.behaviour = context.behaviour;
  options.prepare.recipes = !no_recipes;
  IC_ASSIGN(CorrectionSettings set, ParseCorrections(corrections));
  options.corrections = [set, none = bare](Backend backend, bool disaggregated) {
    ServingCorrections c = none ? NoCorrections() : DefaultCorrections(backend, disaggregated);
    [[maybe_unused]] const Status applied = ApplyCorrections(set, c);
    assert(applied);  // checked when parsed
    return c;
  };
  return options;
}

Result<CalibrationProfile> ReadProfile(const std::string& path) {
  IC_ASSIGN(const std::string text, ReadTextFile(path));
  Result<CalibrationProfile> profile = ProfileFromJson(text);
  if (!profile) return Fail(profile.error().kind, path + ": " + profile.error().message);
  return profile;
}

}  // namespace infercast
