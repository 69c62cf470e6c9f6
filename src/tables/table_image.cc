// Writes and reads the one-block form of a table. Nothing read from an image is used before it was
// checked to lie inside the image.
#include "tables/table_image.h"

#include <sys/mman.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace infercast {
namespace {

static_assert(std::endian::native == std::endian::little, "images are little-endian");

constexpr std::uint64_t kMagic = 0x31454C4241544349ULL;  // "ICTABLE1"
constexpr std::uint32_t kHasPower = 1;
constexpr std::uint32_t kMaxLevels = 32;
// Tables up to this many leaves share one block of zeros as their power and energy.
constexpr std::size_t kSharedZeros = std::size_t{4} << 20;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kTableImageVersion;
  std::uint32_t flags = 0;
  ContentKey key;
  std::uint64_t checksum = 0;  // see Checksum()
  std::uint64_t size = 0;      // bytes of the whole image
  std::uint32_t num_levels = 0;
  std::uint32_t num_leaves = 0;
  // Byte offsets from the start of the image.
  std::uint64_t latency = 0, power = 0, energy = 0, order = 0, source = 0;
};
struct LevelRecord {
  std::uint64_t keys = 0, children = 0, texts = 0;  // byte offsets
  std::uint32_t num_nodes = 0;
  std::uint32_t num_names = 0;
  std::uint32_t name_length = 0;  // the level's name is the first text
  std::uint32_t is_text = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) % 8 == 0);
static_assert(std::is_trivially_copyable_v<LevelRecord> && sizeof(LevelRecord) % 8 == 0);

// A text block: u32 end offset of each text, then the bytes. Text 0 is the level's own name.
class ImageWriter {
 public:
  ImageWriter(std::size_t fixed_bytes) : words_(fixed_bytes / 8) {}

  template <typename T>
  std::uint64_t Append(std::span<const T> values) {
    const std::uint64_t at = words_.size() * 8;
    words_.resize(words_.size() + (values.size_bytes() + 7) / 8);
    if (!values.empty()) {
      std::memcpy(reinterpret_cast<char*>(words_.data()) + at, values.data(), values.size_bytes());
    }
    return at;
  }
  template <typename T>
  void Put(std::size_t at, const T& record) {
    std::memcpy(reinterpret_cast<char*>(words_.data()) + at, &record, sizeof(T));
  }
  std::vector<std::uint64_t> words_;
};

// Typed, bounds-checked access to the bytes of an image.
class ImageReader {
 public:
  explicit ImageReader(std::span<const std::byte> image) : image_(image) {}

  template <typename T>
  bool Array(std::uint64_t at, std::uint64_t count, std::span<const T>& out) const {
    if (at % alignof(T) != 0 || at > image_.size() || count > (image_.size() - at) / sizeof(T)) {
      return false;
    }
    out = {reinterpret_cast<const T*>(image_.data() + at), static_cast<std::size_t>(count)};
    return true;
  }

 private:
  std::span<const std::byte> image_;
};

// Pages that are never written cost no memory.
const double* SharedZeros() {
  static const double* const zeros = [] {
    void* block = mmap(nullptr, kSharedZeros * sizeof(double), PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) {
      static const std::vector<double> fallback(kSharedZeros, 0.0);
      return fallback.data();
    }
    return static_cast<const double*>(block);
  }();
  return zeros;
}

// Covers the header (its checksum taken as 0) and everything behind it.
std::uint64_t Checksum(Header header, std::span<const std::byte> image) {
  header.checksum = 0;
  const std::uint64_t seed = XXH3_64bits(&header, sizeof(header));
  return XXH3_64bits_withSeed(image.data() + sizeof(Header), image.size() - sizeof(Header), seed);
}

std::unexpected<Error> Damaged(const char* what) {
  return Fail(ErrorKind::kCorruptData, std::string("table image: ") + what);
}

bool Ascends(std::span<const double> keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!std::isfinite(keys[i]) || (i > 0 && !(keys[i - 1] < keys[i]))) return false;
  }
  return true;
}

}  // namespace

std::vector<std::uint64_t> EncodeTableImage(const TableParts& parts, const ContentKey& key) {
  Header header;
  header.key = key;
  header.num_levels = static_cast<std::uint32_t>(parts.levels.size());
  header.num_leaves = static_cast<std::uint32_t>(parts.latency.size());
  ImageWriter out(sizeof(Header) + parts.levels.size() * sizeof(LevelRecord));

  for (std::size_t i = 0; i < parts.levels.size(); ++i) {
    const TableParts::Level& level = parts.levels[i];
    LevelRecord record;
    record.num_nodes = static_cast<std::uint32_t>(level.keys.size());
    record.num_names = static_cast<std::uint32_t>(level.names.size());
    record.is_text = level.is_text ? 1 : 0;
    record.keys = out.Append(std::span(level.keys));
    record.children = out.Append(std::span(level.child_begin));
    std::string bytes = level.name;
    std::vector<std::uint32_t> ends = {static_cast<std::uint32_t>(bytes.size())};
    for (const std::string& name : level.names) {
      bytes += name;
      ends.push_back(static_cast<std::uint32_t>(bytes.size()));
    }
    record.name_length = static_cast<std::uint32_t>(bytes.size());
    record.texts = out.Append(std::span<const std::uint32_t>(ends));
    out.Append(std::span<const char>(bytes));
    out.Put(sizeof(Header) + i * sizeof(LevelRecord), record);
  }
  bool has_power = parts.latency.size() > kSharedZeros;
  for (const double power : parts.power) has_power = has_power || power != 0;
  for (const double energy : parts.energy) has_power = has_power || energy != 0;
  header.latency = out.Append(std::span(parts.latency));
  if (has_power) {
    header.flags |= kHasPower;
    header.power = out.Append(std::span(parts.power));
    header.energy = out.Append(std::span(parts.energy));
  }
  header.order = out.Append(std::span(parts.order));
  header.source = out.Append(std::span(parts.source));
  header.size = out.words_.size() * 8;
  header.checksum = Checksum(header, std::as_bytes(std::span(out.words_)));
  out.Put(0, header);
  return std::move(out.words_);
}

Result<std::unique_ptr<Table>> DecodeTableImage(std::span<const std::byte> image,
                                                const ContentKey& key,
                                                std::shared_ptr<const void> owner) {
  Header header;
  if (image.size() < sizeof(Header)) return Damaged("shorter than its header");
  std::memcpy(&header, image.data(), sizeof(Header));
  if (header.magic != kMagic) return Damaged("not a table image");
  if (header.version != kTableImageVersion) return Damaged("another format version");
  if (header.key != key) return Damaged("made from other data");
  if (header.size != image.size()) return Damaged("cut short or grown");
  if (Checksum(header, image) != header.checksum) return Damaged("checksum does not match");
  if (header.num_levels == 0 || header.num_levels > kMaxLevels) return Damaged("bad level count");

  const ImageReader in(image);
  std::span<const LevelRecord> records;
  if (!in.Array(sizeof(Header), header.num_levels, records)) return Damaged("level list");
  auto table = std::make_unique<Table>();
  table->levels.resize(header.num_levels);
  for (std::uint32_t i = 0; i < header.num_levels; ++i) {
    const LevelRecord& record = records[i];
    TableLevel& level = table->levels[i];
    const bool last = i + 1 == header.num_levels;
    level.is_text = record.is_text != 0;
    if (!in.Array(record.keys, record.num_nodes, level.keys)) return Damaged("keys");
    const std::uint64_t children = last ? 0 : std::uint64_t{record.num_nodes} + 1;
    if (!in.Array(record.children, children, level.child_begin)) return Damaged("children");
    if (last && record.num_nodes != header.num_leaves) return Damaged("leaf count");
    if (!last) {
      const auto& begin = level.child_begin;
      if (begin.front() != 0 || begin.back() != records[i + 1].num_nodes) {
        return Damaged("child range");
      }
      for (std::size_t n = 0; n + 1 < begin.size(); ++n) {
        if (begin[n] >= begin[n + 1]) return Damaged("child order");
      }
    }

    std::span<const std::uint32_t> ends;
    std::span<const char> bytes;
    const std::uint64_t num_texts = std::uint64_t{record.num_names} + 1;
    if (!in.Array(record.texts, num_texts, ends)) return Damaged("texts");
    const std::uint64_t bytes_at = record.texts + (num_texts * sizeof(std::uint32_t) + 7) / 8 * 8;
    if (!in.Array(bytes_at, record.name_length, bytes)) return Damaged("texts");
    std::uint32_t from = 0;
    for (std::size_t n = 0; n < ends.size(); ++n) {
      if (ends[n] < from || ends[n] > bytes.size()) return Damaged("texts");
      std::string text(bytes.data() + from, ends[n] - from);
      from = ends[n];
      if (n == 0) {
        level.name = std::move(text);
      } else {
        if (!level.names.empty() && !(level.names.back() < text)) return Damaged("text order");
        level.names.push_back(std::move(text));
      }
    }
  }
  for (std::uint32_t i = 0; i < header.num_levels; ++i) {
    const TableLevel& level = table->levels[i];
    if (level.is_text) {
      for (const double code : level.keys) {
        if (!(code >= 0 && code < static_cast<double>(level.names.size()) &&
              code == std::floor(code))) {
          return Damaged("text code");
        }
      }
    }
    if (i == 0) {
      if (!Ascends(level.keys)) return Damaged("key order");
      continue;
    }
    const auto& parents = table->levels[i - 1].child_begin;
    for (std::size_t n = 0; n + 1 < parents.size(); ++n) {
      if (!Ascends(level.keys.subspan(parents[n], parents[n + 1] - parents[n]))) {
        return Damaged("key order");
      }
    }
  }

  const std::uint64_t leaves = header.num_leaves;
  if (!in.Array(header.latency, leaves, table->latency) ||
      !in.Array(header.order, leaves, table->order) ||
      !in.Array(header.source, leaves, table->source)) {
    return Damaged("leaves");
  }
  if ((header.flags & kHasPower) != 0) {
    if (!in.Array(header.power, leaves, table->power) ||
        !in.Array(header.energy, leaves, table->energy)) {
      return Damaged("power");
    }
  } else {
    if (leaves > kSharedZeros) return Damaged("power");
    table->power = table->energy = {SharedZeros(), static_cast<std::size_t>(leaves)};
  }
  table->storage = std::move(owner);
  return table;
}

}  // namespace infercast
