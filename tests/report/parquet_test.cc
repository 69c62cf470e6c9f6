#include "report/parquet.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tables/parquet_reader.h"

namespace infercast {
namespace {

class ParquetTest : public ::testing::Test {
 protected:
  ParquetTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "results-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ParquetTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

ResultTable Sample() {
  ResultTable table;
  table.columns = {{"model", "model", "", "model", 0},
                   {"tokens/s/gpu", "tokens_per_s_per_gpu", "1/s", "tokens/s", 2},
                   {"bs", "batch_size", "", "bs", 0},
                   {"shown", "", "", "shown", 0}};
  table.rows = {{std::string("a,\"b\""), 1.5, std::int64_t{8}, std::string("x")},
                {std::string("grün"), Cell{}, std::int64_t{16}, std::string("y")},
                {Cell{}, std::int64_t{2}, std::int64_t{32}, Cell{}}};
  return table;
}

TEST_F(ParquetTest, ReadsBackAsWritten) {
  const std::filesystem::path file = folder_ / "results.parquet";
  const Status written = WriteParquet(Sample(), file);
  ASSERT_TRUE(written) << written.error().message;
  const auto read = ReadParquet(file.string(), {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->all_names,
            (std::vector<std::string>{"model", "tokens_per_s_per_gpu", "batch_size"}));
  ASSERT_EQ(read->num_rows, 3u);
  const ParquetColumn& model = *read->Find("model");
  EXPECT_EQ(model.dictionary[model.codes[0]], "a,\"b\"");
  EXPECT_EQ(model.dictionary[model.codes[1]], "grün");
  EXPECT_TRUE(model.IsNull(2));
  const ParquetColumn& rate = *read->Find("tokens_per_s_per_gpu");
  EXPECT_EQ(rate.type, ParquetColumn::Type::kReal);  // integers beside reals
  EXPECT_EQ(rate.reals[0], 1.5);
  EXPECT_TRUE(rate.IsNull(1));
  EXPECT_EQ(rate.reals[2], 2);
  const ParquetColumn& batch = *read->Find("batch_size");
  EXPECT_EQ(batch.type, ParquetColumn::Type::kInteger);
  EXPECT_EQ(batch.integers, (std::vector<std::int64_t>{8, 16, 32}));
  // Nothing is left over beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(ParquetTest, SaysWhatCannotBeWritten) {
  const Status written = WriteParquet(Sample(), folder_ / "no such folder" / "x.parquet");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace infercast
