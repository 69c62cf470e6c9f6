#include "cli/data_tables_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/data_command.h"
#include "cli/run_command.h"
#include "support/data_files.h"

namespace infercast {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Outcome;
using ::testing::StartsWith;

// Asks about the invented system of the golden fixtures.
Outcome Ask(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "data");
  for (const char* more : {"--system", "toy_sxm", "--backend", "trtllm", "--systems-paths",
                           "tests/golden/fixtures/toy"}) {
    arguments.push_back(more);
  }
  return testing::RunCommand(std::move(arguments), AddDataCommand);
}

TEST(DataTablesCommand, TellsWhatIsMeasuredInEveryForm) {
  const Outcome text = Ask({"tables"});
  EXPECT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\ngemm: "));
  EXPECT_THAT(text.out, HasSubstr("9.9.9 primary"));

  const Outcome as_json = Ask({"tables", "--json"});
  const json all = json::parse(as_json.out);
  EXPECT_EQ(all["backend_version"], "9.9.9");
  ASSERT_FALSE(all["tables"].empty());
  for (const json& table : all["tables"]) {
    std::size_t rows = 0;
    for (const json& source : table["sources"]) rows += source["rows"].get<std::size_t>();
    EXPECT_EQ(table["rows"], rows) << table["table"];
    for (const json& axis : table["axes"]) EXPECT_LE(axis["min"], axis["max"]) << table["table"];
  }

  const Outcome csv = Ask({"tables", "--csv"});
  EXPECT_THAT(csv.out, StartsWith("table,file,rows,"));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + int(all["tables"].size()));
}

TEST(DataTablesCommand, ShowsTheSameRowsAsJsonAndCsv) {
  const json rows = json::parse(Ask({"show", "gemm", "--json"}).out);
  ASSERT_GT(rows["total_rows"], 2);
  EXPECT_EQ(rows["rows"].size(), rows["total_rows"]);
  EXPECT_EQ(rows["rows"][0]["source_version"], "9.9.9");
  EXPECT_GT(rows["rows"][0]["latency_ms"], 0.0);

  const std::string csv = Ask({"show", "gemm", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + rows["total_rows"].get<int>());
  EXPECT_THAT(csv, StartsWith("gemm_dtype,m,n,k,latency_ms"));
  EXPECT_EQ(json::parse(Ask({"show", "gemm", "--json", "--limit", "2"}).out)["rows"].size(), 2u);
  EXPECT_EQ(json::parse(Ask({"show", "gemm", "--json", "--limit", "0"}).out)["rows"].size(), 0u);

  const std::string text = Ask({"show", "gemm", "--limit", "1"}).out;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(DataTablesCommand, WritesParquet) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory.path() / "gemm.parquet";
  EXPECT_EQ(Ask({"show", "gemm", "--parquet", file.c_str()}).exit_code, kExitAnswer);
  EXPECT_THAT(testing::ReadText(file), StartsWith("PAR1"));
  EXPECT_EQ(Ask({"show", "gemm", "--parquet", file.c_str(), "--limit", "1"}).exit_code, kExitUsage);
  EXPECT_EQ(Ask({"show", "gemm", "--parquet", "/nowhere/x.parquet"}).exit_code, kExitIo);
}

TEST(DataTablesCommand, SaysWhatIsNotThere) {
  const Outcome unknown = Ask({"show", "gem"});
  EXPECT_EQ(unknown.exit_code, kExitInvalidConfig);
  EXPECT_THAT(unknown.err, HasSubstr("gemm"));
  EXPECT_EQ(Ask({"show", "mamba2_context"}).exit_code, kExitNotMeasured);
}

}  // namespace
}  // namespace infercast
