// Test helpers: temporary directories, environment variables, and small wheels made on the spot.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tables/data_package.h"

namespace infercast::testing {

// A fresh directory, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Sets (or with nullopt unsets) an environment variable and puts it back at the end.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string name, const std::optional<std::string>& value);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

struct WheelFile {
  std::string path;  // in the archive
  std::string content;
  bool in_record = true;
  std::optional<std::string> recorded;  // content RECORD speaks of, when it shall not match
};

// Writes a wheel with these files and a RECORD of their checksums.
void WriteWheel(const std::filesystem::path& file, const std::vector<WheelFile>& files);

// A pin that fits `wheel`, of package "toy".
DataPackagePin PinFor(const std::filesystem::path& wheel);

std::string ReadText(const std::filesystem::path& file);
void WriteText(const std::filesystem::path& file, const std::string& text);

// The files of a small but complete data package "toy".
std::vector<WheelFile> ToyFiles();

}  // namespace infercast::testing
