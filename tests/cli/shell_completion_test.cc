#include "cli/shell_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/completion_command.h"
#include "cli/run_command.h"

namespace infercast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

struct Sample {
  CLI::App app{"Forecasts", "infercast"};
  std::string text, backend = "trtllm", file;
  bool flag = false;

  Sample() {
    app.add_flag("-q,--quiet", flag, "No progress")->group("Global options");
    CLI::App& estimate = *app.add_subcommand("estimate", "One 'point'");
    estimate.add_option("--model-path,--model", text, "Model")->required();
    estimate.add_option("--backend", backend, "Backend")->capture_default_str();
    estimate.add_option("--save-dir", file, "Folder");
    estimate.add_option("--secret", file, "Not shown")->group("");
    CLI::App& data = *app.add_subcommand("data", "Measured data");
    data.add_subcommand("fetch", "Download");
    data.add_subcommand("tables", "List");
  }
};

// What bash offers after `words`, the last of which is being typed.
std::vector<std::string> BashOffers(const std::vector<std::string>& words) {
  const Sample sample;
  std::string pattern = (std::filesystem::temp_directory_path() / "completion-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::string script = BashCompletion(OutlineOf(sample.app));
  script += "\nCOMP_WORDS=(infercast";
  for (const std::string& word : words) script += " '" + word + "'";
  script += "); COMP_CWORD=" + std::to_string(words.size()) +
            "\nset -u\n_infercast\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  std::ofstream(folder / "script") << script;
  std::FILE* pipe = popen(("bash " + (folder / "script").string() + " 2>&1").c_str(), "r");
  std::vector<std::string> offers;
  char line[1024];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    offers.emplace_back(line, std::string(line).size() - 1);
  }
  pclose(pipe);
  std::filesystem::remove_all(folder);
  return offers;
}

TEST(BashCompletionTest, OffersCommandsAndTheirCommands) {
  EXPECT_THAT(BashOffers({"est"}), ElementsAre("estimate"));
  EXPECT_THAT(BashOffers({"data", ""}), IsSupersetOf({"fetch", "tables", "--quiet"}));
  EXPECT_THAT(BashOffers({"data", "f"}), ElementsAre("fetch"));
}

TEST(BashCompletionTest, OffersOptionsOfTheCommandAndOfTheProgram) {
  EXPECT_THAT(BashOffers({"estimate", "--mo"}), ElementsAre("--model-path", "--model"));
  EXPECT_THAT(BashOffers({"estimate", "--qu"}), ElementsAre("--quiet"));
  EXPECT_THAT(BashOffers({"--quiet", "estimate", "--ba"}), ElementsAre("--backend"));
}

TEST(BashCompletionTest, OffersValuesOfClosedSets) {
  EXPECT_THAT(BashOffers({"estimate", "--backend", ""}),
              ElementsAre("trtllm", "sglang", "vllm", "auto"));
  EXPECT_THAT(BashOffers({"estimate", "--backend", "v"}), ElementsAre("vllm"));
}

TEST(OutlineTest, TellsRequiredOptionsDefaultsAndKinds) {
  const Sample sample;
  const std::vector<CommandOutline> outline = OutlineOf(sample.app);
  ASSERT_EQ(outline.size(), 5u);
  const CommandOutline& estimate = outline[1];
  EXPECT_EQ(estimate.path, "estimate");
  ASSERT_EQ(estimate.options.size(), 4u);  // and --help; the hidden one is not there
  EXPECT_TRUE(estimate.options[1].required);
  EXPECT_EQ(estimate.options[1].kind, ValueKind::kModel);
  EXPECT_EQ(estimate.options[2].description, "Backend (default: trtllm)");
  EXPECT_EQ(estimate.options[3].kind, ValueKind::kFile);
  EXPECT_EQ(outline[3].path, "data fetch");
}

TEST(ZshAndFishTest, QuoteDescriptions) {
  const Sample sample;
  const auto outline = OutlineOf(sample.app);
  EXPECT_THAT(ZshCompletion(outline), HasSubstr("'estimate:One '\\''point'\\'''"));
  EXPECT_THAT(FishCompletion(outline), HasSubstr("-a estimate -d 'One \\'point\\''"));
  EXPECT_THAT(FishCompletion(outline), HasSubstr("-l backend -x -a 'trtllm sglang vllm auto'"));
}

TEST(ManualPageTest, ListsEveryCommandAndOption) {
  const Sample sample;
  const std::string page = ManualPage(OutlineOf(sample.app), "1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH INFERCAST 1 \"\" \"infercast 1.2.3\""));
  EXPECT_THAT(page, HasSubstr(".SS infercast data fetch"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-model\\-path\\fR"));
  EXPECT_THAT(page, HasSubstr("Model Required."));
  EXPECT_THAT(page, Not(HasSubstr("secret")));
}

TEST(CompletionCommandTest, AsksForAShell) {
  const auto none = testing::RunCommand({"completion"}, AddCompletionCommand);
  EXPECT_EQ(none.exit_code, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("bash, zsh or fish"));
  const auto bash = testing::RunCommand({"completion", "bash"}, AddCompletionCommand);
  EXPECT_EQ(bash.exit_code, 0);
  EXPECT_THAT(bash.out, HasSubstr("complete -F _infercast infercast"));
  EXPECT_EQ(testing::RunCommand({"completion", "csh"}, AddCompletionCommand).exit_code, kExitUsage);
}

}  // namespace
}  // namespace infercast
