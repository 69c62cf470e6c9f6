// A measured table's Parquet file, from its bytes to the finished table: a damaged file gives an
// error, and whatever can be read is laid out as an image that decodes again.
//
// The first byte picks the table; the rest is the file.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "memory_file.h"
#include "table_walk.h"
#include "tables/readers/recipe.h"
#include "tables/table_image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace infercast;
  if (size == 0) return 0;
  // No data package of this machine is looked at.
  static const int environment = setenv("XDG_CACHE_HOME", "/nonexistent", 1);
  (void)environment;
  const auto id = static_cast<TableId>(data[0] % kNumTables);
  static fuzzing::MemoryFile file;
  file.Write(data + 1, size - 1);

  static const SystemSpec system = [] {
    SystemSpec made_up;
    made_up.mem_bw = 1e12;
    made_up.bfloat16_tc_flops = 1e14;
    return made_up;
  }();
  static const DatabaseIdentity identity;
  const std::array plan = {PlannedSource{
      TableSource{"1.0.0", file.path(), SourceChannel::kPrimary, true, std::nullopt}, 0, 0}};
  const auto parts = LoadRows(RecipeOf(id), plan, LoadContext{system, identity});
  if (!parts) {
    if (parts.error().error.message.empty()) std::abort();
    return 0;
  }
  const auto image =
      std::make_shared<const std::vector<std::uint64_t>>(EncodeTableImage(*parts, {1, 2}));
  const auto table = DecodeTableImage(std::as_bytes(std::span(*image)), {1, 2}, image);
  if (!table) {
    // Keys that are no finite numbers are refused; nothing else may be.
    if (table.error().kind != ErrorKind::kCorruptData) std::abort();
    return 0;
  }
  fuzzing::WalkTable(**table);
  return 0;
}
