// The measured data: which package holds it, fetching it, checking it, and what is in it.
//
// The data is never part of this repository. It is two folders of a pinned Python wheel, fetched
// with pip on the user's machine and unpacked to <cache>/data/<version>/{systems,model_configs}
// beside a manifest.json that lists every file with its size and SHA-256.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

// One exact build of the data. The wheel is only data to us, so one build serves every machine,
// whatever its processor.
struct DataPackagePin {
  std::string distribution;
  std::string version;
  std::string package;       // top-level folder inside the wheel
  std::string wheel;         // file name
  std::string wheel_sha256;  // hexadecimal
  std::uint64_t wheel_bytes;
  std::string platform;        // pip's platform tag
  std::string python_version;  // pip's --python-version
};

const DataPackagePin& PinnedDataPackage();

enum class FetchStage : std::uint8_t { kWaiting, kDownloading, kChecking, kUnpacking };

// `done` and `total` are bytes while downloading and files while unpacking; 0 when not known.
struct FetchProgress {
  FetchStage stage;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

struct FetchOptions {
  bool force = false;           // fetch even if an intact package is there
  std::filesystem::path wheel;  // take this downloaded wheel instead of asking pip; may be empty
  std::string python;           // interpreter with pip; empty: see FindPython in data_package.cc
  std::function<void(const FetchProgress&)> on_progress;  // may be empty
};

struct FetchResult {
  std::filesystem::path path;
  bool already_present = false;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // unpacked
};

// Makes the data package present. Safe to call from several processes at once (the others wait and
// then find it done); interrupting it leaves either the former state or the new one, never half.
// kNetwork when pip fails, kCorruptData when a checksum is wrong, kIo for files and processes.
Result<FetchResult> FetchDataPackage(const FetchOptions& options,
                                     const DataPackagePin& pin = PinnedDataPackage());

// Where the data package is, or would be after fetching. kIo without a cache directory.
Result<std::filesystem::path> DataPackageLocation(const DataPackagePin& pin = PinnedDataPackage());

// The same, but kDataRoot (with what to do) when it has not been fetched. Reads no file.
Result<std::filesystem::path> DataPackagePath(const DataPackagePin& pin = PinnedDataPackage());

struct DataFile {
  std::string path;  // relative to the package's directory, with '/'
  std::uint64_t bytes;
  std::string sha256;  // hexadecimal
};

// What was unpacked, sorted by path. kDataRoot when not fetched, kCorruptData when damaged.
Result<std::vector<DataFile>> ReadDataManifest(const DataPackagePin& pin = PinnedDataPackage());

struct DataProblem {
  std::string path;
  std::string what;
};

struct VerifyResult {
  std::filesystem::path path;
  std::uint64_t files = 0;  // checked
  std::uint64_t bytes = 0;
  std::vector<DataProblem> problems;  // missing, damaged and foreign files; empty = intact
};

// Reads every file again and compares it with the manifest.
Result<VerifyResult> VerifyDataPackage(const DataPackagePin& pin = PinnedDataPackage());

// Checks one file of the data package (absolute path) against the manifest before it is decoded.
// A file outside of the package has nothing to be compared with and passes.
Status VerifyDataPackageFile(const std::filesystem::path& file,
                             const DataPackagePin& pin = PinnedDataPackage());

struct SystemListing {
  std::uint64_t tables = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::vector<std::string>> versions;  // backend or library -> versions
};

struct DataListing {
  std::filesystem::path path;
  std::string version;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, SystemListing> systems;  // every system that has a yaml file
  std::vector<std::string> models;               // "organisation/name"
};

// What the package offers, from the manifest alone.
Result<DataListing> ListDataPackage(const DataPackagePin& pin = PinnedDataPackage());

}  // namespace infercast
