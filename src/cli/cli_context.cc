// Global options, exit codes and error reports of the program.
#include "cli/cli_context.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/near_names.h"

namespace infercast {
namespace {

CLI::App& DeepestParsed(CLI::App& app) {
  CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return *current;
}

// All long flags that hold at `command`: its own and those of the commands above it.
std::vector<std::string> FlagsAt(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    }
  }
  return flags;
}

std::vector<std::string> SubcommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(child->get_name());
  }
  return names;
}

std::string FullName(const CLI::App& command) {
  std::string name = command.get_name();
  for (const CLI::App* at = command.get_parent(); at != nullptr; at = at->get_parent()) {
    name = at->get_name() + " " + name;
  }
  return name;
}

// What was wrong with the command line, in words that name the argument.
std::string Explain(CLI::App& app, const CLI::ParseError& error) {
  CLI::App& command = DeepestParsed(app);
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool missing_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                               command.get_subcommands().empty() && !SubcommandsOf(command).empty();
  if ((extras || missing_command) && !left.empty()) {
    // A flag nobody declared is followed by what was to be its value: the flag is the culprit.
    const std::string& typed = left.front();
    if (typed.starts_with('-')) {
      const std::string name = typed.substr(0, typed.find('='));
      return fmt::format("unknown option {}{}", name, DidYouMean(name, FlagsAt(command)));
    }
    const std::vector<std::string> commands = SubcommandsOf(command);
    if (commands.empty()) return fmt::format("unexpected argument {}", typed);
    std::string hint = DidYouMean(typed, commands);
    if (hint.empty()) hint = fmt::format("; available: {}", JoinNames(commands));
    return fmt::format("unknown command {}{}", typed, hint);
  }
  if (missing_command) {
    return fmt::format("no command given; available: {}", JoinNames(SubcommandsOf(command)));
  }
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --isl = abc".
    if (const std::size_t colon = text.find(": "); colon != std::string::npos) {
      return fmt::format("not a number: {}", text.substr(colon + 2));
    }
  }
  if (const std::size_t end = text.find(" is required"); end != std::string::npos) {
    if (text.starts_with("--system")) return text + "; `infercast data list` names the systems";
    if (text.starts_with("--model")) return text + "; `infercast models` lists the bundled ones";
  }
  return text;
}

int ReportError(const CliContext& context, const Error& error, int exit_code) {
  if (context.json) {
    const nlohmann::ordered_json report = {
        {"error",
         {{"kind", ToString(error.kind)}, {"message", error.message}, {"exit_code", exit_code}}}};
    // Messages may quote foreign bytes: what is not UTF-8 is replaced, not thrown at the user.
    context.Print(report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  fmt::print(context.err, "infercast: error: {}\n", error.message);
  return exit_code;
}

}  // namespace

ExitCode ExitCodeFor(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kPerfDatabase:
    case ErrorKind::kMissingSystemFlops:
    case ErrorKind::kEmpiricalNotImplemented:
    case ErrorKind::kSolNotImplemented:
      return kExitNotMeasured;
    case ErrorKind::kIo:
    case ErrorKind::kDataRoot:
    case ErrorKind::kNetwork:
      return kExitIo;
    case ErrorKind::kParquet:
    case ErrorKind::kYaml:
    case ErrorKind::kCorruptData:
      return kExitCorruptData;
    case ErrorKind::kInvalidEngineConfig:
    case ErrorKind::kUnsupportedSchemaVersion:
    case ErrorKind::kEngineSpec:
    case ErrorKind::kInvalidForwardPassMetrics:
    case ErrorKind::kUnsupportedModel:
    case ErrorKind::kModelConfig:
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kUnknownName:
    case ErrorKind::kBadModelConfig:
    case ErrorKind::kIncompatibleMemoryFraction:
    case ErrorKind::kInsufficientModelMetadata:
      return kExitInvalidConfig;
    case ErrorKind::kNoKvBudget:
    case ErrorKind::kDoesNotFit:
      return kExitDoesNotFit;
    case ErrorKind::kNoFeasibleConfig:
      return kExitNoFeasibleConfig;
    case ErrorKind::kUsage:
      return kExitUsage;
    case ErrorKind::kInterrupted:
      return kExitInterrupted;
    case ErrorKind::kInternal:
      return kExitInternal;
  }
  return kExitInternal;
}

void CliContext::Print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), out);
}

void CliContext::Note(std::string_view line) const {
  if (!quiet) fmt::print(err, "{}\n", line);
}

void AddGlobalOptions(CLI::App& app, CliContext& context) {
  app.fallthrough();
  app.require_subcommand(1);
  app.footer("Global options: --json --csv --quiet --behaviour --systems-paths (infercast --help)");
  app.get_formatter()->column_width(34);
  app.add_flag("--json", context.json, "Print the result as JSON")->group("Global options");
  app.add_flag("--csv", context.csv, "Print the result as CSV")
      ->excludes("--json")
      ->group("Global options");
  app.add_flag("-q,--quiet", context.quiet, "No progress and no notes, only results and errors")
      ->group("Global options");
  app.add_option_function<std::string>(
         "--behaviour,--behavior",
         [&context](const std::string& name) {
           context.behaviour = name == "reference" ? Behaviour::kReference : Behaviour::kNative;
         },
         "native (default), or reference: with the reference's known quirks")
      ->check(CLI::IsMember(std::vector<std::string>{"native", "reference"}))
      ->option_text("NAME")
      ->group("Global options");
  app.add_option_function<std::string>(
         "--systems-paths", [&context](const std::string& list) { context.systems_paths = list; },
         "Trees of systems and measurements, separated by commas; `default` is the data package")
      ->option_text("LIST")
      ->group("Global options");
}

void OnRun(CLI::App& command, CliContext& context, std::function<Result<int>()> action) {
  command.final_callback([&context, action = std::move(action)] { context.action = action; });
}

int RunCommandLine(CLI::App& app, CliContext& context, int argc, const char* const* argv) {
  app.footer("");  // only the subcommands, which inherited it, need to be reminded
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    // The flags after the mistake were not read; a program that asked for JSON shall get it.
    for (int i = 1; i < argc; ++i)
      context.json = context.json || std::string_view(argv[i]) == "--json";
    const std::string message =
        fmt::format("{} (see {} --help)", Explain(app, error), FullName(DeepestParsed(app)));
    return ReportError(context, {ErrorKind::kUsage, message}, kExitUsage);
  }
  if (!context.action) {
    return ReportError(context, {ErrorKind::kInternal, "the command does nothing"}, kExitInternal);
  }
  Result<int> result = kExitInternal;
  try {
    result = context.action();
  } catch (const std::exception& exception) {
    result = Fail(ErrorKind::kInternal, exception.what());
  }
  if (!result) return ReportError(context, result.error(), ExitCodeFor(result.error().kind));
  // An answer that did not reach its reader (full disk, closed pipe) is not an answer.
  if (std::fflush(context.out) != 0 || std::ferror(context.out) != 0) {
    fmt::print(context.err, "infercast: error: cannot write the result\n");
    return kExitIo;
  }
  return *result;
}

}  // namespace infercast
