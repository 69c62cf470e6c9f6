// Wheel unpacking through libzip. RECORD is the wheel format's list of `path,sha256=<digest>,size`.
#include "tables/wheel.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "tables/digest.h"

namespace infercast {
namespace {

// No single file of a data package comes near this; a larger one is a broken or hostile archive.
constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{1} << 30;

struct ArchiveCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct EntryCloser {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, ArchiveCloser>;
using Bytes = std::vector<std::uint8_t>;

struct RecordEntry {
  Sha256Digest digest;
  std::uint64_t size;
};
using Record = std::unordered_map<std::string, RecordEntry>;

std::unexpected<Error> Corrupt(const UnpackOptions& options, std::string_view what) {
  return Fail(ErrorKind::kCorruptData, fmt::format("{}: {}", options.wheel.string(), what));
}

Result<Archive> OpenArchive(const UnpackOptions& options) {
  int code = 0;
  Archive archive(zip_open(options.wheel.c_str(), ZIP_RDONLY, &code));
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  const bool unreadable = code == ZIP_ER_NOENT || code == ZIP_ER_OPEN || code == ZIP_ER_READ;
  return Fail(unreadable ? ErrorKind::kIo : ErrorKind::kCorruptData,
              fmt::format("cannot open wheel {}: {}", options.wheel.string(), text));
}

Result<Bytes> ReadEntry(const UnpackOptions& options, zip_t* archive, zip_uint64_t index,
                        std::string_view name) {
  zip_stat_t info;
  zip_stat_init(&info);
  if (zip_stat_index(archive, index, 0, &info) != 0 || (info.valid & ZIP_STAT_SIZE) == 0) {
    return Corrupt(options, fmt::format("no size of {}", name));
  }
  if (info.size > kMaxEntryBytes) {
    return Corrupt(options, fmt::format("{} claims {} bytes", name, info.size));
  }
  std::unique_ptr<zip_file_t, EntryCloser> entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) {
    return Corrupt(options, fmt::format("cannot read {}: {}", name, zip_strerror(archive)));
  }
  Bytes bytes(info.size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const zip_int64_t count = zip_fread(entry.get(), bytes.data() + done, bytes.size() - done);
    if (count <= 0) return Corrupt(options, fmt::format("cannot unpack {}", name));
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

// One line of RECORD. Names with commas or quotes are quoted there; no data file has such a name,
// so a quoted line is passed over and a file that needed it counts as missing from RECORD.
void ParseRecordLine(std::string_view line, Record& record) {
  constexpr std::string_view kAlgorithm = "sha256=";
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::size_t second = line.rfind(',');
  if (second == std::string_view::npos || second == 0 || line.front() == '"') return;
  const std::size_t first = line.rfind(',', second - 1);
  if (first == std::string_view::npos) return;
  const std::string_view digest = line.substr(first + 1, second - first - 1);
  const std::string_view size = line.substr(second + 1);
  if (!digest.starts_with(kAlgorithm) || size.empty() || size.size() > 18) return;
  const auto decoded = FromUrlSafeBase64(digest.substr(kAlgorithm.size()));
  if (!decoded) return;
  std::uint64_t bytes = 0;
  for (char c : size) {
    if (c < '0' || c > '9') return;
    bytes = bytes * 10 + static_cast<std::uint64_t>(c - '0');
  }
  record.emplace(line.substr(0, first), RecordEntry{*decoded, bytes});
}

Result<Record> ReadRecord(const UnpackOptions& options, zip_t* archive) {
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* name = zip_get_name(archive, index, 0);
    if (name == nullptr || !std::string_view(name).ends_with(".dist-info/RECORD")) continue;
    IC_ASSIGN(const Bytes bytes, ReadEntry(options, archive, index, name));
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Record record;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ParseRecordLine(text.substr(0, end), record);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return record;
  }
  return Corrupt(options, "no RECORD of checksums inside");
}

// True for a relative path of plain components only.
bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.find('\\') != std::string_view::npos) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Status WriteFile(const std::filesystem::path& file, const Bytes& bytes) {
  std::error_code code;
  std::filesystem::create_directories(file.parent_path(), code);
  if (code) {
    return Fail(ErrorKind::kIo,
                fmt::format("cannot create {}: {}", file.parent_path().string(), code.message()));
  }
  std::FILE* stream = std::fopen(file.c_str(), "wbe");
  bool good = stream != nullptr;
  int reason = errno;
  if (good) {
    good = std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
    reason = errno;
    if (std::fclose(stream) != 0 && good) {
      good = false;
      reason = errno;
    }
  }
  if (good) return {};
  return Fail(ErrorKind::kIo,
              fmt::format("cannot write {}: {}", file.string(), std::strerror(reason)));
}

struct Wanted {
  zip_uint64_t index;
  std::string name;      // in the wheel
  std::string relative;  // below the destination
};

Result<std::vector<Wanted>> ChooseEntries(const UnpackOptions& options, zip_t* archive) {
  std::vector<Wanted> wanted;
  const std::string prefix = options.package + "/";
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* raw = zip_get_name(archive, index, 0);
    if (raw == nullptr) continue;
    const std::string name = raw;
    if (name.ends_with('/') || !name.starts_with(prefix)) continue;
    const std::string relative = name.substr(prefix.size());
    const bool inside = std::ranges::any_of(options.folders, [&](const std::string& folder) {
      return relative.starts_with(folder + "/");
    });
    if (!inside || std::ranges::find(options.excluded, relative) != options.excluded.end()) {
      continue;
    }
    if (!IsPlainPath(relative)) return Corrupt(options, fmt::format("unsafe path {}", name));
    wanted.push_back({index, name, relative});
  }
  std::ranges::sort(wanted, {}, &Wanted::relative);
  return wanted;
}

}  // namespace

Result<std::vector<UnpackedFile>> UnpackWheel(const UnpackOptions& options) {
  IC_ASSIGN(const Archive archive, OpenArchive(options));
  IC_ASSIGN(const Record record, ReadRecord(options, archive.get()));
  IC_ASSIGN(const std::vector<Wanted> wanted, ChooseEntries(options, archive.get()));
  if (wanted.empty()) {
    return Corrupt(options, fmt::format("holds none of {}/{{{}}}", options.package,
                                        fmt::join(options.folders, ", ")));
  }
  std::vector<UnpackedFile> files;
  files.reserve(wanted.size());
  for (const Wanted& entry : wanted) {
    const auto expected = record.find(entry.name);
    if (expected == record.end()) {
      return Corrupt(options, fmt::format("{} has no checksum in RECORD", entry.name));
    }
    IC_ASSIGN(const Bytes bytes, ReadEntry(options, archive.get(), entry.index, entry.name));
    IC_ASSIGN(const Sha256Digest digest, Sha256(bytes));
    if (bytes.size() != expected->second.size || digest != expected->second.digest) {
      return Corrupt(options, fmt::format("{} does not match its checksum", entry.name));
    }
    IC_RETURN_IF_ERROR(WriteFile(options.destination / entry.relative, bytes));
    files.push_back({entry.relative, bytes.size(), ToHex(digest)});
    if (options.on_progress) options.on_progress(files.size(), wanted.size());
  }
  return files;
}

}  // namespace infercast
