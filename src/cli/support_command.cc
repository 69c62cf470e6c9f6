#include "cli/support_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "cli/deployment_flags.h"
#include "cli/interrupt.h"
#include "cli/named_option.h"
#include "cli/progress.h"
#include "report/csv.h"
#include "report/support_report.h"

namespace infercast {
namespace {

struct SupportFlags {
  std::string model, system, backend = "all";
  std::optional<std::string> version;
  std::int64_t gpus = SupportQuestion().total_gpus;
  bool measured_only = false;
  bool compare = false;
};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

Result<int> Run(const SupportFlags& flags, const CliContext& context) {
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  const bool all_models = flags.model == "all", all_systems = flags.system == "all";
  const std::vector<std::string> models =
      all_models ? BundledModels(around.checkpoints) : Split(flags.model);
  std::vector<std::string> systems = Split(flags.system);
  if (all_systems) systems = around.systems.Systems();
  std::vector<Backend> backends;
  if (flags.backend == "all" || flags.backend == "auto") {
    backends = {Backend::kTrtllm, Backend::kSglang, Backend::kVllm};
  } else {
    IC_ASSIGN(const Backend backend, ParseNamed<Backend>(flags.backend));
    backends = {backend};
  }
  // Mistyped names are errors; that something was not measured is an answer.
  if (!all_systems) {
    for (const std::string& system : systems) {
      IC_ASSIGN(const auto root, around.systems.RootOf(system));
      static_cast<void>(root);
    }
  }
  if (!all_models) {
    for (const std::string& model : models) {
      IC_ASSIGN(const ModelConfig config, LoadModelConfig(model, around.checkpoints));
      static_cast<void>(config);
    }
  }
  std::vector<SupportQuestion> shown;
  for (const std::string& model : models) {
    for (const std::string& system : systems) {
      for (const Backend backend : backends) {
        // Where nothing was measured for a backend there is nothing to ask in a matrix.
        if (all_systems && !around.systems.LatestVersion(system, backend)) continue;
        shown.push_back({model, system, backend, flags.version, flags.gpus});
      }
    }
  }
  std::vector<SupportQuestion> questions = shown;
  std::vector<PublishedSupport> published;
  const bool compare = flags.compare || (all_models && all_systems && !flags.version);
  if (compare) {
    const std::set<std::string> asked_models(models.begin(), models.end());
    const std::set<std::string> asked_systems(systems.begin(), systems.end());
    std::set<SupportQuestion> added;
    for (const auto& root : around.systems.roots()) {
      IC_ASSIGN(const std::vector<PublishedSupport> rows, ReadPublishedSupport(root));
      for (const PublishedSupport& row : rows) {
        const bool backend_asked =
            std::ranges::find(backends, row.question.backend) != backends.end();
        if (!backend_asked || !asked_systems.contains(row.question.system)) continue;
        if (!all_models && !asked_models.contains(row.question.model)) continue;
        published.push_back(row);
        if (added.insert(row.question).second) questions.push_back(row.question);
      }
    }
  }

  SupportOptions options;
  options.estimates = !flags.measured_only;
  options.behaviour = context.behaviour;
  options.allow_unlisted_versions = compare;
  const InterruptGuard interrupts;
  options.stop = &InterruptGuard::requested();
  ProgressLine progress(context);
  options.progress = [&](std::size_t done, std::size_t total) {
    progress.Update("checking support", done, total, "questions");
  };
  const std::vector<SupportAnswer> all =
      CheckSupport(questions, options, around.systems, around.checkpoints);
  progress.Clear();
  const std::span<const SupportAnswer> answers(all.data(), shown.size());
  std::optional<SupportComparison> comparison;
  if (compare) comparison = CompareSupport(published, all);

  if (context.json) {
    context.Print(SupportJson(answers, comparison));
  } else if (context.csv) {
    context.Print(CsvOf(SupportTable(answers)));
    if (comparison) context.Note(ComparisonText(*comparison));
  } else {
    const bool many = models.size() * systems.size() > 4;
    context.Print(many ? SupportMatrixText(answers) : SupportText(answers));
    if (comparison) context.Print("\n" + ComparisonText(*comparison));
  }
  if (InterruptGuard::requested().load()) {
    const auto open = std::ranges::count_if(answers, [](const SupportAnswer& a) {
      return a.disaggregated.kind == SupportKind::kNotAsked;
    });
    context.Note(fmt::format("interrupted: {} of {} were not looked at (?)", open, answers.size()));
    return kExitInterrupted;
  }
  const bool any = std::ranges::any_of(answers, [](const SupportAnswer& a) {
    return a.aggregated.kind != SupportKind::kNo || a.disaggregated.kind != SupportKind::kNo;
  });
  return any ? kExitAnswer : kExitNotMeasured;
}

}  // namespace

void AddSupportCommand(CLI::App& app, CliContext& context) {
  auto flags = std::make_shared<SupportFlags>();
  CLI::App& command = *app.add_subcommand(
      "support", "Whether a model on a system can be answered, from what, or what is missing");
  command.add_option("--model,--model-path", flags->model, "Models, separated by commas, or all")
      ->required();
  command.add_option("--system", flags->system, "Systems, separated by commas, or all")->required();
  command.add_option("--backend", flags->backend, "trtllm, sglang, vllm or all")
      ->capture_default_str();
  command.add_option("--backend-version,--perf-db-version", flags->version,
                     "Version measured, or current, previous, next (default: current)");
  command.add_option("--total-gpus,--gpus", flags->gpus, "Largest deployment to try")
      ->capture_default_str();
  command.add_flag("--measured-only", flags->measured_only, "Do not try estimates");
  command.add_flag("--compare", flags->compare,
                   "Compare with the support tables of the data package (all models and systems: "
                   "always)");
  OnRun(command, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
