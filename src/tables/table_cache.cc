// Keys, finds and replaces the files of the table cache.
#include "tables/table_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstdlib>
#include <optional>

#include "tables/cache_directory.h"
#include "tables/mapped_file.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> CacheFolder() {
  const char* off = std::getenv("INFERCAST_TABLE_CACHE");
  if (off != nullptr && std::string_view(off) == "0") return std::nullopt;
  const char* base = std::getenv("INFERCAST_CACHE_DIR");
  if (base != nullptr && *base != '\0') return fs::path(base) / "tables";
  const auto user = CacheDirectory();
  if (!user) return std::nullopt;
  return *user / "tables";
}

std::string FileName(TableId id, const DatabaseIdentity& identity) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}", identity.systems_root.string(), identity.system,
                  ToString(identity.backend), identity.version, identity.shared_layer);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{}-{:016x}{:016x}.table", TableName(id), hash.high64, hash.low64);
}

class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~Hasher() { XXH3_freeState(state_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Bytes(std::span<const std::byte> bytes) {
    Number(bytes.size());
    if (!bytes.empty()) XXH3_128bits_update(state_, bytes.data(), bytes.size());
  }
  void Text(std::string_view text) { Bytes(std::as_bytes(std::span(text))); }
  void Number(std::uint64_t value) { XXH3_128bits_update(state_, &value, sizeof(value)); }
  ContentKey Finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t* state_;
};

}  // namespace

Result<ContentKey> ContentKeyOf(TableId id, const TableRecipe& recipe,
                                std::span<const PlannedSource> plan, const LoadContext& context) {
  Hasher hasher;
  hasher.Number(kTableImageVersion);
  hasher.Text(TableName(id));
  for (const PlannedSource& planned : plan) {
    const TableSource& source = planned.source;
    hasher.Number(planned.basename);
    hasher.Number(planned.rank);
    hasher.Number(static_cast<std::uint64_t>(source.channel));
    hasher.Text(source.version);
    hasher.Text(source.path);
    hasher.Number(source.kernel_filter ? source.kernel_filter->size() + 1 : 0);
    if (source.kernel_filter) {
      for (const std::string& kernel : *source.kernel_filter) hasher.Text(kernel);
    }
    hasher.Number(source.exists ? 1 : 0);
    if (!source.exists) continue;
    IC_ASSIGN(const auto file, MappedFile::Open(source.path));
    hasher.Bytes(file->bytes());
  }
  if (recipe.uses_system) {
    const fs::path yaml = context.identity.systems_root / (context.identity.system + ".yaml");
    IC_ASSIGN(const auto file, MappedFile::Open(yaml));
    hasher.Bytes(file->bytes());
  }
  return hasher.Finish();
}

std::unique_ptr<Table> LoadCachedTable(TableId id, const DatabaseIdentity& identity,
                                       const ContentKey& key) {
  const auto folder = CacheFolder();
  if (!folder) return nullptr;
  auto file = MappedFile::Open(*folder / FileName(id, identity));
  if (!file) return nullptr;
  const auto bytes = (*file)->bytes();
  auto table = DecodeTableImage(bytes, key, *std::move(file));
  return table ? *std::move(table) : nullptr;
}

void StoreCachedTable(TableId id, const DatabaseIdentity& identity,
                      std::span<const std::uint64_t> image) {
  const auto folder = CacheFolder();
  if (!folder) return;
  std::error_code code;
  fs::create_directories(*folder, code);
  if (code) return;
  static std::atomic<unsigned> counter = 0;
  const fs::path target = *folder / FileName(id, identity);
  const fs::path temporary =
      *folder / fmt::format(".{}.{}.{}", target.filename().string(), getpid(), counter++);
  const int descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return;
  const auto bytes = std::as_bytes(image);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  const bool complete = close(descriptor) == 0 && done == bytes.size();
  if (complete) fs::rename(temporary, target, code);
  if (!complete || code) fs::remove(temporary, code);
}

}  // namespace infercast
