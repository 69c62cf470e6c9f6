#include "tables/wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/data_files.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ReadText;
using testing::TemporaryDirectory;
using testing::ToyFiles;
using testing::WheelFile;
using testing::WriteText;
using testing::WriteWheel;

class WheelTest : public ::testing::Test {
 protected:
  Result<std::vector<UnpackedFile>> Unpack(const std::vector<WheelFile>& files) {
    WriteWheel(wheel_, files);
    return Unpack();
  }
  Result<std::vector<UnpackedFile>> Unpack() {
    fs::create_directory(destination_);
    return UnpackWheel({.wheel = wheel_,
                        .destination = destination_,
                        .package = "toy",
                        .folders = {"systems", "model_configs"},
                        .excluded = {"systems/silicon_sample.csv"},
                        .on_progress = {}});
  }

  TemporaryDirectory directory_;
  fs::path wheel_ = directory_.path() / "toy.whl";
  fs::path destination_ = directory_.path() / "out";
};

TEST_F(WheelTest, UnpacksTheChosenFoldersOnly) {
  const auto files = Unpack(ToyFiles());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->size(), 7U);
  EXPECT_EQ(files->front().path, "model_configs/Org--Model-1_config.json");
  EXPECT_EQ(files->front().size, 2U);
  EXPECT_EQ(files->front().sha256,
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
  EXPECT_EQ(ReadText(destination_ / "systems/data/gpu/gemm/vllm/0.10.0/gemm_perf.parquet"), "ten");
  EXPECT_TRUE(fs::exists(destination_ / "systems/data/gpu/gemm/vllm/0.9.0/collection_meta.yaml"));
  EXPECT_FALSE(fs::exists(destination_ / "systems/silicon_sample.csv"));
  EXPECT_FALSE(fs::exists(destination_ / "__init__.py"));
}

TEST_F(WheelTest, RejectsAFileThatDiffersFromRecord) {
  auto wheel = ToyFiles();
  wheel[1].recorded = "gpu: []\n";  // as long as the real content
  const auto files = Unpack(wheel);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
  EXPECT_THAT(files.error().message, HasSubstr("systems/gpu.yaml"));
}

TEST_F(WheelTest, RejectsAFileThatRecordDoesNotKnow) {
  auto wheel = ToyFiles();
  wheel[4].in_record = false;
  const auto files = Unpack(wheel);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
  EXPECT_THAT(files.error().message, HasSubstr("gemm_perf.parquet has no checksum"));
}

TEST_F(WheelTest, RejectsPathsThatLeaveTheDestination) {
  auto wheel = ToyFiles();
  wheel.push_back({"toy/systems/../../escaped", "x", true, {}});
  const auto files = Unpack(wheel);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
  EXPECT_FALSE(fs::exists(directory_.path() / "escaped"));
}

TEST_F(WheelTest, RejectsWhatIsNoArchiveAndWhatIsNotThere) {
  WriteText(wheel_, "not a zip archive");
  auto files = Unpack();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
  fs::remove(wheel_);
  files = Unpack();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kIo);
}

TEST_F(WheelTest, RejectsATruncatedArchive) {
  WriteWheel(wheel_, ToyFiles());
  fs::resize_file(wheel_, fs::file_size(wheel_) / 2);
  const auto files = Unpack();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
}

TEST_F(WheelTest, RejectsAWheelWithoutTheFolders) {
  const auto files = Unpack({{"toy/__init__.py", "", true, {}}});
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kCorruptData);
}

TEST_F(WheelTest, ReportsFilesItCannotWrite) {
  WriteWheel(wheel_, ToyFiles());
  fs::create_directory(destination_);
  WriteText(destination_ / "systems", "in the way");
  const auto files = Unpack();
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace infercast
