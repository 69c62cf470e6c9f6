#include "tables/systems_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/data_files.h"
#include "tables/cache_directory.h"
#include "tables/data_package.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScopedEnvironment;
using testing::TemporaryDirectory;
using testing::WriteText;

class SystemsPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(a_);
    fs::create_directories(b_);
  }
  // As much of an installed package as path resolution looks at.
  fs::path InstallPackage() {
    fs::path root = *DataPackageLocation();
    fs::create_directories(root / "systems");
    fs::create_directories(root / "model_configs");
    WriteText(root / "manifest.json", "{}");
    return root;
  }

  TemporaryDirectory directory_;
  ScopedEnvironment cache_{"XDG_CACHE_HOME", (directory_.path() / "cache").string()};
  ScopedEnvironment variable_{"INFERCAST_SYSTEMS_PATH", std::nullopt};
  fs::path a_ = directory_.path() / "a" / "systems";
  fs::path b_ = directory_.path() / "b" / "systems";
};

TEST_F(SystemsPathsTest, ListsRootsInTheGivenOrder) {
  const auto roots = ResolveSystemsPaths(b_.string() + " ,, \t" + a_.string() + ",");
  ASSERT_TRUE(roots) << roots.error().message;
  EXPECT_THAT(*roots, ElementsAre(b_, a_));
}

TEST_F(SystemsPathsTest, DefaultStandsForThePackage) {
  const fs::path package = InstallPackage();
  EXPECT_THAT(*ResolveSystemsPaths(a_.string() + ",DeFault"), ElementsAre(a_, package / "systems"));
  EXPECT_THAT(*ResolveSystemsPaths(), ElementsAre(package / "systems"));
  EXPECT_THAT(*ResolveSystemsPaths(" , "), ElementsAre(package / "systems"));
}

TEST_F(SystemsPathsTest, TheFlagGoesBeforeTheVariableBeforeThePackage) {
  InstallPackage();
  const ScopedEnvironment variable("INFERCAST_SYSTEMS_PATH", a_.string());
  EXPECT_THAT(*ResolveSystemsPaths(), ElementsAre(a_));
  EXPECT_THAT(*ResolveSystemsPaths(b_.string()), ElementsAre(b_));
}

TEST_F(SystemsPathsTest, NamesTheEntriesThatAreNoDirectories) {
  const auto roots = ResolveSystemsPaths(a_.string() + ",/nowhere/x,/nowhere/y");
  ASSERT_FALSE(roots);
  EXPECT_EQ(roots.error().kind, ErrorKind::kDataRoot);
  EXPECT_THAT(roots.error().message,
              HasSubstr("--systems-paths: not a directory: /nowhere/x, /nowhere/y"));
  EXPECT_THAT(roots.error().message, Not(HasSubstr(a_.string())));
}

TEST_F(SystemsPathsTest, NamesTheVariableWhenThatIsWrong) {
  const ScopedEnvironment variable("INFERCAST_SYSTEMS_PATH", "/nowhere/x");
  EXPECT_THAT(ResolveSystemsPaths().error().message, HasSubstr("INFERCAST_SYSTEMS_PATH"));
}

TEST_F(SystemsPathsTest, WithoutAPackageTellsHowToGetIt) {
  const auto roots = ResolveSystemsPaths();
  ASSERT_FALSE(roots);
  EXPECT_EQ(roots.error().kind, ErrorKind::kDataRoot);
  EXPECT_THAT(roots.error().message, HasSubstr("infercast data fetch"));
}

TEST_F(SystemsPathsTest, ModelConfigsStandBesideTheirSystems) {
  const fs::path configs = directory_.path() / "a" / "model_configs";
  fs::create_directories(configs);
  EXPECT_THAT(ModelConfigPaths({b_, a_}), ElementsAre(configs));
  EXPECT_THAT(ModelConfigPaths({a_ / ""}), ElementsAre(configs));
  const fs::path package = InstallPackage();
  EXPECT_THAT(ModelConfigPaths({a_, package / "systems"}),
              ElementsAre(configs, package / "model_configs"));
}

TEST_F(SystemsPathsTest, CacheDirectoryFollowsTheXdgRules) {
  const ScopedEnvironment home("HOME", "/home/somebody");
  EXPECT_EQ(*CacheDirectory(), directory_.path() / "cache" / "infercast");
  const ScopedEnvironment relative("XDG_CACHE_HOME", "not/absolute");
  EXPECT_EQ(*CacheDirectory(), "/home/somebody/.cache/infercast");
}

}  // namespace
}  // namespace infercast
