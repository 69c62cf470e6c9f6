// One table laid out in one block of memory: what the builder produces, what the table cache writes
// to disk and maps back. See docs/table-cache.md for the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "tables/table.h"
#include "tables/table_builder.h"

namespace infercast {

// Identifies what an image was made from.
struct ContentKey {
  std::uint64_t low = 0, high = 0;
  bool operator==(const ContentKey&) const = default;
};

// Bump when the layout, a reader or a load-time correction changes: older images are then stale.
constexpr std::uint32_t kTableImageVersion = 2;

// The image, in units of 8 bytes.
std::vector<std::uint64_t> EncodeTableImage(const TableParts& parts, const ContentKey& key);

// A table over the bytes of an image, which `owner` keeps alive. Checks magic, version, key,
// checksum and every offset, count and order in it; kCorruptData when anything is off. `name` and
// `sources` of the table are left for the caller. `image` must be aligned to 8 bytes.
Result<std::unique_ptr<Table>> DecodeTableImage(std::span<const std::byte> image,
                                                const ContentKey& key,
                                                std::shared_ptr<const void> owner);

}  // namespace infercast
