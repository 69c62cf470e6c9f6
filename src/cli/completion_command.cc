#include "cli/completion_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/deployment_flags.h"
#include "cli/shell_completion.h"

namespace infercast {
namespace {

Result<int> PrintNames(const std::string& what, const CliContext& context) {
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  const std::vector<std::string> names =
      what == "systems" ? around.systems.Systems() : BundledModels(around.checkpoints);
  for (const std::string& name : names) context.Print(name + "\n");
  return kExitAnswer;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, CliContext& context) {
  struct Flags {
    std::string shell, list;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App& completion = *app.add_subcommand(
      "completion", "Completion script of a shell, e.g.: source <(infercast completion bash)");
  completion.add_option("shell", flags->shell, "bash, zsh or fish")
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}));
  completion
      .add_option("--list", flags->list, "Print the names that scripts offer: systems or models")
      ->check(CLI::IsMember(std::vector<std::string>{"systems", "models"}));
  OnRun(completion, context, [flags, &app, &context]() -> Result<int> {
    if (!flags->list.empty()) return PrintNames(flags->list, context);
    const std::vector<CommandOutline> outline = OutlineOf(app);
    if (flags->shell == "bash") {
      context.Print(BashCompletion(outline));
    } else if (flags->shell == "zsh") {
      context.Print(ZshCompletion(outline));
    } else if (flags->shell == "fish") {
      context.Print(FishCompletion(outline));
    } else {
      return Fail(ErrorKind::kUsage, "name a shell: infercast completion bash, zsh or fish");
    }
    return kExitAnswer;
  });

  CLI::App& manual =
      *app.add_subcommand("manual", "The manual page; read it with: infercast manual | man -l -");
  OnRun(manual, context, [&app, &context]() -> Result<int> {
    context.Print(ManualPage(OutlineOf(app), INFERCAST_VERSION));
    return kExitAnswer;
  });
}

}  // namespace infercast
