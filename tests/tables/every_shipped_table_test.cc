// Walks the whole data package: each measured file must load, and none may be overlooked.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "measured_data.h"
#include "tables/database.h"
#include "tables/readers/recipe.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;

// Files that no query reads.
const std::set<std::string> kUnread = {"dsv4_hca_attn_module_perf", "wideep_context_mlp_perf",
                                       "wideep_generation_mlp_perf"};

TEST(EveryShippedTable, Loads) {
  IC_REQUIRE_DATA(root);
  std::map<std::string, std::vector<TableId>> tables_of;  // file stem -> tables
  for (std::size_t i = 0; i < kNumTables; ++i) {
    const auto id = static_cast<TableId>(i);
    for (const std::string& stem : RecipeOf(id).basenames) tables_of[stem].push_back(id);
  }

  // (system, backend, version) -> stems of measured files
  std::map<std::tuple<std::string, std::string, std::string>, std::set<std::string>> found;
  for (const auto& entry : fs::recursive_directory_iterator(root / "data")) {
    if (entry.path().extension() != ".parquet") continue;
    const fs::path relative = entry.path().lexically_relative(root / "data");
    std::vector<std::string> parts;
    for (const auto& part : relative) parts.push_back(part.string());
    ASSERT_EQ(parts.size(), 5U) << relative;
    found[{parts[0], parts[2], parts[3]}].insert(entry.path().stem().string());
  }
  ASSERT_FALSE(found.empty());

  std::size_t loaded = 0;
  for (const auto& [where, stems] : found) {
    const auto& [system, backend_name, version] = where;
    const auto backend = ParseEnum<Backend>(backend_name);
    DatabaseIdentity identity =
        testing::Identity(root, system, backend.value_or(Backend::kTrtllm), version);
    identity.shared_layer = false;
    identity.tolerate_missing_dir = !backend;  // collective libraries have versions of their own
    const auto store = TableStore::Open(identity);
    ASSERT_TRUE(store) << store.error().message;
    for (const std::string& stem : stems) {
      if (kUnread.contains(stem)) continue;
      ASSERT_TRUE(tables_of.contains(stem)) << "no table reads " << stem;
      if (!backend) {
        const auto& configured = stem == "nccl_perf" ? (*store)->system().nccl_version
                                                     : (*store)->system().oneccl_version;
        if (configured != version) continue;  // not the version this system uses
      }
      std::size_t leaves = 0;
      for (const TableId id : tables_of[stem]) {
        const TableStore::Slot& slot = (*store)->Get(id);
        EXPECT_FALSE(slot.corrupt) << system << " " << backend_name << " " << version << " "
                                   << TableName(id) << ": " << slot.error.message;
        if (slot.table == nullptr) continue;
        leaves += slot.table->num_leaves();
        for (const double latency : slot.table->latency) ASSERT_GE(latency, 0);
        for (const std::uint16_t source : slot.table->source) {
          ASSERT_LT(source, slot.table->sources.size());
        }
      }
      EXPECT_GT(leaves, 0U) << system << " " << backend_name << " " << version << " " << stem;
      ++loaded;
    }
  }
  EXPECT_GT(loaded, 600U);
}

}  // namespace
}  // namespace infercast
