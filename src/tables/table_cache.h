// Finished tables on disk, mapped back at the next start.
//
// One file a (table, identity), in $INFERCAST_CACHE_DIR/tables or <user cache>/infercast/tables. A
// file is used only if it was made from exactly the bytes that would be read now, and only after
// its checksum and structure were verified; otherwise it is ignored and replaced. Anything that
// goes wrong with the cache merely costs time. INFERCAST_TABLE_CACHE=0 switches it off. The format
// is described in docs/table-cache.md.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tables/readers/recipe.h"
#include "tables/table_image.h"

namespace infercast {

// What a table would be made from now: all source files' bytes, the rules that pick their rows, and
// the system's yaml where rows depend on it. kIo when a file cannot be read.
Result<ContentKey> ContentKeyOf(TableId id, const TableRecipe& recipe,
                                std::span<const PlannedSource> plan, const LoadContext& context);

// The stored table of this content, or null.
std::unique_ptr<Table> LoadCachedTable(TableId id, const DatabaseIdentity& identity,
                                       const ContentKey& key);

// Stores an image; silently does nothing when the place is not writable.
void StoreCachedTable(TableId id, const DatabaseIdentity& identity,
                      std::span<const std::uint64_t> image);

}  // namespace infercast
