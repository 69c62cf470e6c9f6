// Damaged files of every kind: always an error, never a crash, never "not measured".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "synthetic_root.h"
#include "tables/parquet_reader.h"
#include "tables/readers/recipe.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;

// The smallest shipped file of every kind, and a place below a root of our own where a table of
// `backend` reads it.
struct Sample {
  fs::path file;
  std::string family, backend;
};

std::map<std::string, Sample> Samples(const fs::path& root) {
  std::map<std::string, Sample> samples;
  for (const auto& entry : fs::recursive_directory_iterator(root / "data")) {
    if (entry.path().extension() != ".parquet") continue;
    const std::string stem = entry.path().stem().string();
    Sample& sample = samples[stem];
    if (!sample.file.empty() && fs::file_size(sample.file) <= entry.file_size()) continue;
    const fs::path version = entry.path().parent_path();
    sample = {entry.path(), version.parent_path().parent_path().filename().string(),
              version.parent_path().filename().string()};
  }
  return samples;
}

// Rounds per kind of file: few by default, more where time does not matter.
int Flips() {
  const char* rounds = std::getenv("INFERCAST_TEST_FLIPS");
  return rounds != nullptr ? std::atoi(rounds) : 30;
}

TEST(DamagedFiles, TruncationAndFlippedBits) {
  IC_REQUIRE_DATA(root);
  const testing::ScopedEnvironment no_cache("INFERCAST_TABLE_CACHE", "0");
  const testing::SyntheticRoot mine;
  std::mt19937 random(3);
  std::size_t kinds = 0;
  for (const auto& [stem, sample] : Samples(root)) {
    std::vector<TableId> tables;
    for (std::size_t i = 0; i < kNumTables; ++i) {
      const auto& basenames = RecipeOf(static_cast<TableId>(i)).basenames;
      if (std::find(basenames.begin(), basenames.end(), stem) != basenames.end()) {
        tables.push_back(static_cast<TableId>(i));
      }
    }
    if (tables.empty()) continue;
    ++kinds;
    const bool library = !ParseEnum<Backend>(sample.backend);
    const Backend backend = ParseEnum<Backend>(sample.backend).value_or(Backend::kVllm);
    const std::string version = library ? "2.1" : "1.0";
    const fs::path place =
        mine.data() / sample.family / sample.backend / version / (stem + ".parquet");
    fs::create_directories(place.parent_path());
    fs::create_directories(mine.data() / "gemm" / std::string(ToString(backend)) / "1.0");
    const std::string good = testing::ReadText(sample.file);

    const auto load = [&](const std::string& bytes) {
      testing::WriteText(place, bytes);
      bool corrupt = false;
      const auto store = mine.Open("1.0", backend);
      for (const TableId id : tables) {
        const TableStore::Slot& slot = store->Get(id);
        EXPECT_TRUE(slot.table != nullptr || !slot.error.message.empty());
        corrupt = corrupt || slot.corrupt;
      }
      return corrupt;
    };
    if (stem != "oneccl_perf") {  // needs a library version that the yaml does not give
      EXPECT_FALSE(load(good)) << stem;
      for (int round = 0; round < 6; ++round) {
        const std::size_t size = round == 0 ? 0 : random() % good.size();
        EXPECT_TRUE(load(good.substr(0, size))) << stem << " cut at " << size;
      }
    }
    // Flips may hit unused bytes, so that the file stays readable: only crashes count.
    for (int round = 0; round < Flips(); ++round) {
      std::string bad = good;
      for (unsigned i = 0; i <= random() % 4; ++i) {
        // The end of the file holds its schema and offsets: hit it more often.
        const std::size_t from =
            round % 2 == 0 ? 0 : bad.size() - std::min<std::size_t>(bad.size(), 2000);
        bad[from + random() % (bad.size() - from)] ^= static_cast<char>(1U << (random() % 8));
      }
      load(bad);
    }
    fs::remove(place);
  }
  EXPECT_GT(kinds, 35U);
}

TEST(DamagedFiles, EverySmallFlipOfASmallFile) {
  const testing::SyntheticRoot root;
  const fs::path file = root.root() / "small.parquet";
  testing::WriteParquet(file, {testing::Texts("t", {"a", std::nullopt, "b", "a"}),
                               testing::Integers("i", {1, 2, std::nullopt, 4}),
                               testing::Reals("r", {1.5, std::nullopt, 2.5, 3.5}),
                               testing::Flags("f", {true, false, std::nullopt, true})});
  const std::string good = testing::ReadText(file);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1U << (at % 8));
    testing::WriteText(file, bad);
    const auto read = ReadParquet(file.string(), {});
    if (!read) {
      ++refused;
      continue;
    }
    for (const ParquetColumn& column : read->columns) {
      if (column.type == ParquetColumn::Type::kText) {
        ASSERT_EQ(column.codes.size(), read->num_rows);
        for (const std::uint32_t code : column.codes) ASSERT_LT(code, column.dictionary.size());
      }
      if (column.type == ParquetColumn::Type::kInteger) {
        ASSERT_EQ(column.integers.size(), read->num_rows);
      }
    }
  }
  EXPECT_GT(refused, good.size() / 4);
}

TEST(ParquetReader, TypesAndNulls) {
  const testing::SyntheticRoot root;
  const fs::path file = root.root() / "types.parquet";
  testing::WriteParquet(
      file, {testing::Texts("t", {"a", std::nullopt, "b", "a"}),
             testing::Integers("i", {1, -2, std::nullopt, 4}),
             testing::Reals("r", {1.5, 0.5, 2.5, std::nullopt}),
             testing::Flags("f", {true, false, std::nullopt, true}),
             testing::Column{"i32", std::vector<std::optional<std::int32_t>>{1, 2, 3, 4}},
             testing::Column{"f32", std::vector<std::optional<float>>{1, 2, 3, 4}}});
  const auto all = ReadParquet(file.string(), {});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->num_rows, 4U);
  const ParquetColumn& text = *all->Find("t");
  EXPECT_EQ(text.type, ParquetColumn::Type::kText);
  EXPECT_THAT(text.dictionary, ::testing::ElementsAre("a", "b"));
  EXPECT_TRUE(text.IsNull(1));
  EXPECT_FALSE(text.IsNull(3));
  EXPECT_EQ(text.codes[3], 0U);
  EXPECT_EQ(all->Find("i")->integers[1], -2);
  EXPECT_TRUE(all->Find("i")->IsNull(2));
  EXPECT_EQ(all->Find("r")->reals[2], 2.5);
  EXPECT_EQ(all->Find("f")->integers[0], 1);
  EXPECT_EQ(all->Find("i32")->type, ParquetColumn::Type::kOther);
  EXPECT_EQ(all->Find("f32")->type, ParquetColumn::Type::kOther);

  const std::string_view wanted[] = {"r", "absent"};
  const auto some = ReadParquet(file.string(), wanted);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->columns.size(), 1U);
  EXPECT_EQ(some->all_names.size(), 6U);
  EXPECT_EQ(ReadParquet("/no/such/file.parquet", {}).error().kind, ErrorKind::kIo);
  EXPECT_EQ(ReadParquet(root.root().string(), {}).error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace infercast
