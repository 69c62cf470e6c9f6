// Files are read within a bound and written whole or not at all.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace infercast {
namespace {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  FilesTest() : folder_(fs::path(testing::TempDir()) / "infercast_files_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  fs::path folder_;
};

TEST_F(FilesTest, WhatWasWrittenIsRead) {
  const std::string text("first\0second\n", 13);
  ASSERT_TRUE(WriteTextFile(folder_ / "a", text));
  EXPECT_EQ(ReadTextFile(folder_ / "a").value(), text);
  ASSERT_TRUE(WriteTextFile(folder_ / "a", ""));
  EXPECT_EQ(ReadTextFile(folder_ / "a").value(), "");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_F(FilesTest, ReadingStopsAtTheBound) {
  ASSERT_TRUE(WriteTextFile(folder_ / "a", "0123456789"));
  EXPECT_EQ(ReadTextFile(folder_ / "a", 10).value(), "0123456789");
  EXPECT_EQ(ReadTextFile(folder_ / "a", 9).error().kind, ErrorKind::kIo);
  EXPECT_EQ(ReadTextFile("/dev/zero", 1 << 20).error().kind, ErrorKind::kIo);
  EXPECT_EQ(ReadTextFile("/dev/null").value(), "");
}

TEST_F(FilesTest, PipesAreReadToTheirEnd) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(300'000, 'x');
  std::jthread writer([&] { EXPECT_TRUE(WriteTextFile(pipe, text)); });
  EXPECT_EQ(ReadTextFile(pipe).value(), text);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(FilesTest, FoldersAndMissingFilesAreRefused) {
  EXPECT_EQ(ReadTextFile(folder_).error().kind, ErrorKind::kIo);
  const auto missing = ReadTextFile(folder_ / "b");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_EQ(WriteTextFile(folder_, "x").error().kind, ErrorKind::kIo);
  const auto nowhere = WriteTextFile(folder_ / "no" / "c", "x");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message.find(".part"), std::string::npos) << nowhere.error().message;
}

TEST_F(FilesTest, AFailedWriterLeavesTheOldContent) {
  ASSERT_TRUE(WriteTextFile(folder_ / "a", "old"));
  const auto fails = [](const fs::path& temporary) -> Status {
    std::ofstream(temporary) << "half";
    return Fail(ErrorKind::kIo, "disk full");
  };
  EXPECT_EQ(ReplaceFile(folder_ / "a", fails).error().message, "disk full");
  const auto throws = [](const fs::path& temporary) -> Status {
    std::ofstream(temporary) << "half";
    throw std::runtime_error("encoder");
  };
  EXPECT_EQ(ReplaceFile(folder_ / "a", throws).error().kind, ErrorKind::kIo);
  EXPECT_EQ(ReadTextFile(folder_ / "a").value(), "old");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_F(FilesTest, ALinkStaysALink) {
  ASSERT_TRUE(WriteTextFile(folder_ / "a", "old"));
  fs::create_symlink("a", folder_ / "link");
  ASSERT_TRUE(WriteTextFile(folder_ / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(ReadTextFile(folder_ / "a").value(), "new");
  fs::create_symlink("b", folder_ / "nowhere");
  ASSERT_TRUE(WriteTextFile(folder_ / "nowhere", "created"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "nowhere"));
  EXPECT_EQ(ReadTextFile(folder_ / "b").value(), "created");
}

TEST_F(FilesTest, ModesStay) {
  ASSERT_TRUE(WriteTextFile(folder_ / "a", "old"));
  const fs::perms own = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(folder_ / "a", own);
  ASSERT_TRUE(WriteTextFile(folder_ / "a", "new"));
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), own);
}

}  // namespace
}  // namespace infercast
