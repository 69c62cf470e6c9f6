// Figures of the shipped tables, measured against the reference.
#include <gtest/gtest.h>

#include "measured_data.h"
#include "tables/database.h"

namespace infercast {
namespace {

using testing::Identity;

class ShippedTable : public ::testing::Test {
 protected:
  // The leaf at the end of a full key.
  static std::optional<Leaf> At(const TableStore& store, TableId id,
                                std::initializer_list<Table::Key> discrete,
                                std::initializer_list<double> axes) {
    const TableStore::Slot& slot = store.Get(id);
    EXPECT_NE(slot.table, nullptr) << slot.error.message;
    if (slot.table == nullptr) return std::nullopt;
    auto view = slot.table->Slice(discrete);
    EXPECT_TRUE(view);
    if (!view) return std::nullopt;
    std::size_t left = axes.size();
    for (const double key : axes) {
      const auto node = view->Find(key);
      EXPECT_TRUE(node) << "no key " << key;
      if (!node) return std::nullopt;
      if (--left == 0) return slot.table->LeafAt(*node);
      view = view->Child(*node);
    }
    return std::nullopt;
  }
  static std::shared_ptr<TableStore> Open(const std::filesystem::path& root, std::string system,
                                          Backend backend, std::string version) {
    auto store = TableStore::Open(Identity(root, system, backend, version));
    EXPECT_TRUE(store) << (store ? "" : store.error().message);
    return store ? *store : nullptr;
  }
};

TEST_F(ShippedTable, HopperSglangLeaves) {
  IC_REQUIRE_DATA(root);
  const auto store = Open(root, "h200_sxm", Backend::kSglang, "0.5.14");
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(At(*store, TableId::kGemm, {"fp8"}, {224, 1536, 2048})->latency, 0.010832889212502373);
  EXPECT_EQ(At(*store, TableId::kContextAttention, {"triton", "bfloat16", "fp8", 8, 256, 1024},
               {16, 16384, 2})
                ->latency,
            16.05547332763672);
  EXPECT_EQ(
      At(*store, TableId::kGenerationAttention, {"triton", "bfloat16", 8, 256, 1024}, {16, 32, 2})
          ->latency,
      0.00917920023202896);
  EXPECT_EQ(
      At(*store, TableId::kMoe, {"fp8_block", "balanced", 8, 256, 7168, 2048, 1, 1}, {64})->latency,
      1.398958740234375);
  EXPECT_EQ(At(*store, TableId::kNccl, {"half", "all_gather", 2}, {256})->latency, 0.00517);
  EXPECT_EQ(At(*store, TableId::kCustomAllReduce, {"half", 2}, {128})->latency,
            0.0025798401236534116);
  EXPECT_EQ(store->Get(TableId::kGemm).table->num_leaves(), 101010U);
  EXPECT_EQ(store->Get(TableId::kMoe).table->num_leaves(), 136730U);
  EXPECT_EQ(store->Get(TableId::kGenerationAttention).table->num_leaves(), 40468U);
  EXPECT_EQ(store->Get(TableId::kContextAttention).table->num_leaves(), 35090U);
  EXPECT_EQ(store->Get(TableId::kCustomAllReduce).table->num_leaves(), 69U);
}

TEST_F(ShippedTable, PowerColumn) {
  IC_REQUIRE_DATA(root);
  const auto store = Open(root, "b200_sxm", Backend::kVllm, "0.22.0");
  ASSERT_NE(store, nullptr);
  const TableStore::Slot& slot = store->Get(TableId::kContextAttention);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  std::optional<Leaf> found;
  for (std::uint32_t lane = 0; lane < slot.table->levels[0].keys.size(); ++lane) {
    const auto view = slot.table->Slice(slot.table->Root().Child(lane),
                                        {"bfloat16", "bfloat16", 0, 64, 0, 64, 16384});
    if (!view) continue;
    const auto node = view->Find(4);
    if (node && slot.table->order[*node] == 0) found = slot.table->LeafAt(*node);
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->latency, 10.643343486483134);
  EXPECT_EQ(found->power, 403.3462857142857);
  EXPECT_EQ(found->energy, 4292.953062854308);
}

TEST_F(ShippedTable, ProductsAreRaisedToTheSpeedOfLight) {
  IC_REQUIRE_DATA(root);
  const auto l40s = Open(root, "l40s", Backend::kTrtllm, "1.3.0rc20");
  ASSERT_NE(l40s, nullptr);
  EXPECT_EQ(At(*l40s, TableId::kGemm, {"bfloat16"}, {3840, 10240, 32})->latency,
            0.09206518518518518);
  const auto b60 = Open(root, "b60", Backend::kVllm, "0.26.0");
  ASSERT_NE(b60, nullptr);
  EXPECT_EQ(At(*b60, TableId::kGemm, {"fp8"}, {4096, 10240, 65536})->latency, 55.92405333333333);
}

}  // namespace
}  // namespace infercast
