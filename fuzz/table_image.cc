// A file of the table cache: any bytes give a table whose arrays can be walked, or an error. Once
// as they are, and once with a header that fits them, so that what the checksum protects is looked
// at too.
#include "tables/table_image.h"

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "table_walk.h"

namespace {

using namespace infercast;

constexpr ContentKey kKey{1, 2};
// Where the header keeps these; see docs/table-cache.md.
constexpr std::size_t kVersionAt = 8, kKeyAt = 16, kChecksumAt = 32, kSizeAt = 40;
constexpr std::size_t kHeaderSize = 96;

void Decode(std::shared_ptr<const std::vector<std::uint64_t>> words) {
  const auto table = DecodeTableImage(std::as_bytes(std::span(*words)), kKey, words);
  if (table) fuzzing::WalkTable(**table);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> words(size / 8);
  if (words.empty()) return 0;
  std::memcpy(words.data(), data, words.size() * 8);
  Decode(std::make_shared<const std::vector<std::uint64_t>>(words));
  const std::size_t bytes = words.size() * 8;
  if (bytes < kHeaderSize) return 0;
  auto* const image = reinterpret_cast<unsigned char*>(words.data());
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(image + at, &value, sizeof(value));
  };
  std::memcpy(image, "ICTABLE1", 8);
  put(kVersionAt, kTableImageVersion);
  put(kKeyAt, kKey);
  put(kSizeAt, static_cast<std::uint64_t>(bytes));
  put(kChecksumAt, std::uint64_t{0});
  const std::uint64_t seed = XXH3_64bits(image, kHeaderSize);
  put(kChecksumAt, XXH3_64bits_withSeed(image + kHeaderSize, bytes - kHeaderSize, seed));
  Decode(std::make_shared<const std::vector<std::uint64_t>>(std::move(words)));
  return 0;
}
