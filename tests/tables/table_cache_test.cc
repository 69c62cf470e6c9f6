// The cache of finished tables: used when it fits, ignored and replaced when it does not.
#include "tables/table_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "synthetic_root.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using testing::SyntheticRoot;

void WriteProducts(const SyntheticRoot& root, double latency) {
  testing::WriteParquet(
      root.data() / "gemm/vllm/1.0/gemm_perf.parquet",
      {testing::Texts("gemm_dtype", {"fp8", "bfloat16"}), testing::Integers("m", {1, 2}),
       testing::Integers("n", {8, 8}), testing::Integers("k", {8, 8}),
       testing::Reals("latency", {latency, 2 * latency}),
       testing::Reals("power", {100, std::nullopt})});
}

double Latency(const SyntheticRoot& root) {
  const auto store = root.Open("1.0");
  const auto& slot = store->Get(TableId::kGemm);
  if (slot.table == nullptr) return -1;
  const auto view = slot.table->Slice({"fp8", 1, 8});
  if (!view || view->size() != 1) return -1;
  return slot.table->LeafAt(view->begin).latency;
}

fs::path OnlyFile(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    EXPECT_TRUE(found.empty());
    found = entry.path();
  }
  return found;
}

TEST(TableCache, AStoredTableIsMappedBack) {
  const SyntheticRoot root;
  WriteProducts(root, 1.0);
  EXPECT_EQ(Latency(root), 1.0);
  const fs::path file = OnlyFile(root.cache());
  const auto before = fs::last_write_time(file);
  // Nothing is decoded the second time, so nothing is written either.
  EXPECT_EQ(Latency(root), 1.0);
  EXPECT_EQ(fs::last_write_time(file), before);
  const auto store = root.Open("1.0");
  const Table& table = *store->Get(TableId::kGemm).table;
  ASSERT_EQ(table.levels.size(), 4U);
  EXPECT_EQ(table.levels[0].name, "gemm_dtype");
  EXPECT_EQ(table.levels[0].names, (std::vector<std::string>{"bfloat16", "fp8"}));
  EXPECT_EQ(table.LeafAt(1).energy, 100.0);
  EXPECT_EQ(table.order[1], 0U);
  EXPECT_EQ(table.sources.size(), 1U);
}

TEST(TableCache, ChangedDataOrHardwareMakesItStale) {
  const SyntheticRoot root;
  WriteProducts(root, 1.0);
  EXPECT_EQ(Latency(root), 1.0);
  WriteProducts(root, 3.0);
  EXPECT_EQ(Latency(root), 3.0);
  // A slower memory raises the speed of light above the measured latency.
  std::string yaml = testing::ReadText(root.root() / "sys.yaml");
  yaml.replace(yaml.find("7700000000000"), 13, "1");
  testing::WriteText(root.root() / "sys.yaml", yaml);
  EXPECT_GT(Latency(root), 1000.0);
}

TEST(TableCache, DamagedFilesAreReplaced) {
  const SyntheticRoot root;
  WriteProducts(root, 1.0);
  ASSERT_EQ(Latency(root), 1.0);
  const fs::path file = OnlyFile(root.cache());
  const std::string good = testing::ReadText(file);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    if (round % 3 == 0) {
      bad.resize(random() % bad.size());
    } else {
      bad[random() % bad.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    testing::WriteText(file, bad);
    ASSERT_EQ(Latency(root), 1.0) << round;
    ASSERT_EQ(testing::ReadText(file), good) << round;
  }
}

// An image whose checksum is right but whose structure is not must be refused as well.
TEST(TableCache, StructureIsCheckedBehindTheChecksum) {
  TableParts parts;
  parts.levels = {{"a", true, {"x", "y"}, {0, 1}, {0, 1, 2}}, {"b", false, {}, {1, 2}, {}}};
  parts.latency = {1, 2};
  parts.power = parts.energy = {0, 0};
  parts.order = {0, 1};
  parts.source = {0, 0};
  const auto decodes = [](const TableParts& p) {
    const auto image = EncodeTableImage(p, {1, 2});
    return DecodeTableImage(std::as_bytes(std::span(image)), {1, 2}, nullptr).has_value();
  };
  EXPECT_TRUE(decodes(parts));
  const auto with = [&](auto change) {
    TableParts copy = parts;
    change(copy);
    return decodes(copy);
  };
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].child_begin = {0, 2, 1}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].child_begin = {0, 1, 3}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].child_begin = {0, 1}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].keys = {0, 2}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].keys = {1, 0}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].keys = {0, 0.5}; }));
  EXPECT_FALSE(with([](TableParts& p) { p.levels[0].names = {"y", "x"}; }));
  EXPECT_FALSE(with([](TableParts& p) {
    p.levels[0] = {"a", true, {"x"}, {0}, {0, 2}};
    p.levels[1].keys = {2, 2};
  }));
  EXPECT_FALSE(with([](TableParts& p) { p.latency = {1}; }));
  const auto image = EncodeTableImage(parts, {1, 2});
  EXPECT_FALSE(DecodeTableImage(std::as_bytes(std::span(image)), {1, 3}, nullptr));
}

TEST(TableCache, IsNotNeeded) {
  const SyntheticRoot root;
  WriteProducts(root, 1.0);
  {
    const testing::ScopedEnvironment off("INFERCAST_TABLE_CACHE", "0");
    EXPECT_EQ(Latency(root), 1.0);
    EXPECT_FALSE(fs::exists(root.cache()));
  }
  {
    // A file stands where the folder should be.
    fs::create_directories(root.cache().parent_path());
    testing::WriteText(root.cache(), "in the way");
    EXPECT_EQ(Latency(root), 1.0);
    EXPECT_EQ(testing::ReadText(root.cache()), "in the way");
  }
}

}  // namespace
}  // namespace infercast
