#include "cli/cli_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/data_command.h"
#include "cli/run_command.h"
#include "cli/version_command.h"

namespace infercast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;

Outcome Command(std::vector<const char*> arguments,
                const std::function<void(CLI::App&, CliContext&)>& add = {}) {
  return testing::RunCommand(std::move(arguments), [&](CLI::App& app, CliContext& context) {
    AddDataCommand(app, context);
    AddVersionCommand(app, context);
    if (add) add(app, context);
  });
}

TEST(CommandLine, UnknownCommandsGetAHint) {
  const Outcome outcome = Command({"dta", "list"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("unknown command dta (did you mean data?)"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(CommandLine, UnknownNestedCommandsGetAHint) {
  const Outcome outcome = Command({"data", "verfy"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("unknown command verfy (did you mean verify?)"));
  EXPECT_THAT(outcome.err, HasSubstr("infercast data --help"));
}

TEST(CommandLine, CommandsLikeNoneAreAnsweredWithTheList) {
  const Outcome outcome = Command({"xyzzy"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("unknown command xyzzy; available: data, version"));
}

TEST(CommandLine, UnknownOptionsGetAHint) {
  Outcome outcome = Command({"data", "list", "--jsn"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("unknown option --jsn (did you mean --json"));
  outcome = Command({"--system-path=x", "data", "list"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("unknown option --system-path (did you mean --systems-paths"));
}

TEST(CommandLine, StrayArgumentsAndMissingCommandsAreUsageErrors) {
  EXPECT_THAT(Command({"data", "list", "extra"}).err, HasSubstr("unexpected argument extra"));
  const Outcome none = Command({});
  EXPECT_EQ(none.exit_code, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("no command given"));
}

TEST(CommandLine, WrongValuesNameTheOptionAndWhatIsPossible) {
  const Outcome outcome = Command({"version", "--behaviour", "odd"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--behaviour"));
  EXPECT_THAT(outcome.err, HasSubstr("odd not in {native,reference}"));
}

TEST(CommandLine, GlobalOptionsMayFollowTheCommand) {
  std::optional<std::string> paths;
  Behaviour behaviour = Behaviour::kNative;
  const auto probe = [&](CLI::App& app, CliContext& context) {
    OnRun(*app.add_subcommand("probe"), context, [&]() -> Result<int> {
      paths = context.systems_paths;
      behaviour = context.behaviour;
      return context.quiet ? 1 : 0;
    });
  };
  EXPECT_EQ(Command({"probe", "-q", "--behavior", "reference", "--systems-paths", "a,b"}, probe)
                .exit_code,
            1);
  EXPECT_EQ(paths, "a,b");
  EXPECT_EQ(behaviour, Behaviour::kReference);
  EXPECT_EQ(Command({"--behaviour", "native", "probe"}, probe).exit_code, 0);
  EXPECT_EQ(paths, std::nullopt);
  EXPECT_EQ(behaviour, Behaviour::kNative);
}

TEST(CommandLine, ErrorsBecomeExitCodesAndJson) {
  const auto failing = [](CLI::App& app, CliContext& context) {
    OnRun(*app.add_subcommand("fail"), context,
          []() -> Result<int> { return Fail(ErrorKind::kPerfDatabase, "no such table \xff"); });
  };
  const Outcome plain = Command({"fail"}, failing);
  EXPECT_EQ(plain.exit_code, kExitNotMeasured);
  EXPECT_THAT(plain.err, HasSubstr("infercast: error: no such table"));
  EXPECT_THAT(plain.out, IsEmpty());
  const Outcome json = Command({"fail", "--json"}, failing);
  EXPECT_EQ(json.exit_code, kExitNotMeasured);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["error"]["kind"], ToString(ErrorKind::kPerfDatabase));
  EXPECT_EQ(report["error"]["exit_code"], kExitNotMeasured);
}

TEST(CommandLine, UsageErrorsAreJsonTooWhenAsked) {
  const Outcome outcome = Command({"dta", "--json"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["kind"], ToString(ErrorKind::kUsage));
}

TEST(CommandLine, ExceptionsOfALibraryAreInternalErrors) {
  const Outcome outcome = Command({"throw"}, [](CLI::App& app, CliContext& context) {
    OnRun(*app.add_subcommand("throw"), context,
          []() -> Result<int> { throw std::runtime_error("from below"); });
  });
  EXPECT_EQ(outcome.exit_code, kExitInternal);
  EXPECT_THAT(outcome.err, HasSubstr("from below"));
}

TEST(CommandLine, VersionNamesTheDataPackage) {
  EXPECT_EQ(Command({"version"}).exit_code, kExitAnswer);
  const auto report = nlohmann::json::parse(Command({"version", "--json"}).out);
  EXPECT_EQ(report["infercast"], INFERCAST_VERSION);
  EXPECT_EQ(report["data"]["distribution"], "aiconfigurator-core");
}

TEST(ExitCodes, KeepMissingWrongTooBigAndDamagedApart) {
  const std::set<int> codes = {ExitCodeFor(ErrorKind::kNoFeasibleConfig),
                               ExitCodeFor(ErrorKind::kUsage),
                               ExitCodeFor(ErrorKind::kPerfDatabase),
                               ExitCodeFor(ErrorKind::kInvalidArgument),
                               ExitCodeFor(ErrorKind::kDoesNotFit),
                               ExitCodeFor(ErrorKind::kParquet),
                               ExitCodeFor(ErrorKind::kIo),
                               ExitCodeFor(ErrorKind::kInternal),
                               ExitCodeFor(ErrorKind::kInterrupted)};
  EXPECT_THAT(codes, ElementsAre(1, 2, 3, 4, 5, 6, 7, 70, 130));
}

}  // namespace
}  // namespace infercast
