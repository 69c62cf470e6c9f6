// Summaries, raw views, support lists and coverage of shipped and invented tables.
#include "tables/introspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "synthetic_root.h"
#include "tables/measured_support.h"
#include "tables/parquet_reader.h"
#include "tables/raw_view.h"

namespace infercast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Json = nlohmann::ordered_json;

std::shared_ptr<TableStore> Hopper(const std::filesystem::path& root) {
  auto store = TableStore::Open(testing::Identity(root, "h200_sxm", Backend::kSglang, "0.5.14"));
  EXPECT_TRUE(store) << (store ? "" : store.error().message);
  return store ? *store : nullptr;
}

void WriteProducts(const testing::SyntheticRoot& root) {
  testing::WriteParquet(
      root.data() / "gemm/vllm/1.0/gemm_perf.parquet",
      {testing::Texts("gemm_dtype", {"nvfp4", "awq", "bfloat16", "bfloat16", "bfloat16"}),
       testing::Integers("m", {4, 1, 2, 2, 1}), testing::Integers("n", {8, 8, 8, 8, 8}),
       testing::Integers("k", {8, 8, 8, 8, 8}),
       testing::Reals("latency", {1.0, 2.0, 3.0, 9.0, 0.5}),
       testing::Reals("power", {10.0, 20.0, 30.0, 40.0, 0.0})});
  testing::WriteParquet(
      root.data() / "gemm/vllm/0.9/gemm_perf.parquet",
      {testing::Texts("gemm_dtype", {"fp8"}), testing::Integers("m", {7}),
       testing::Integers("n", {8}), testing::Integers("k", {8}), testing::Reals("latency", {4.0})});
}

TEST(Introspection, SummaryOfATable) {
  const testing::SyntheticRoot root;
  WriteProducts(root);
  const auto store = root.Open("1.0");
  const TableSummary summary = Summarize(*store, TableId::kGemm);
  EXPECT_EQ(summary.name, "gemm");
  EXPECT_EQ(summary.file, "gemm_perf");
  EXPECT_EQ(summary.points, 4U);
  EXPECT_TRUE(summary.has_power);
  EXPECT_THAT(summary.quant_modes, ElementsAre("nvfp4", "bfloat16", "fp8"));
  ASSERT_EQ(summary.levels.size(), 4U);
  EXPECT_THAT(summary.levels[0].texts, ElementsAre("bfloat16", "fp8", "nvfp4"));
  EXPECT_FALSE(summary.levels[0].is_axis);
  EXPECT_EQ(summary.levels[1].name, "m");
  EXPECT_TRUE(summary.levels[1].is_axis);
  EXPECT_THAT(summary.levels[1].values, ElementsAre(1, 2, 4, 7));
  ASSERT_EQ(summary.sources.size(), 2U);
  EXPECT_EQ(summary.sources[0].points, 3U);
  EXPECT_EQ(summary.sources[1].points, 1U);
  EXPECT_EQ(summary.sources[1].source.version, "0.9");
  EXPECT_EQ(summary.sources[1].source.channel, SourceChannel::kFallback);

  const TableSummary absent = Summarize(*store, TableId::kMoe);
  EXPECT_EQ(absent.points, 0U);
  EXPECT_FALSE(absent.corrupt);
  EXPECT_THAT(absent.problem, HasSubstr("moe_perf"));
  EXPECT_EQ(ListTables(*store).size(), 1U);

  testing::WriteText(root.data() / "gemm/vllm/1.0/mla_bmm_perf.parquet", "PAR1 nonsense");
  const std::vector<TableSummary> listed = ListTables(**TableStore::Open([&] {
    DatabaseIdentity identity = root.Identity("1.0");
    identity.shared_layer = false;
    return identity;
  }()));
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[1].id, TableId::kMlaBmm);
  EXPECT_TRUE(listed[1].corrupt);
}

TEST(Introspection, RowsAndTheirParquetFile) {
  const testing::SyntheticRoot root;
  WriteProducts(root);
  const auto store = root.Open("1.0");
  const Table& table = *store->Get(TableId::kGemm).table;
  std::vector<std::string> rows;
  VisitRows(table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    rows.push_back(*cells[0].text + " " + std::to_string(static_cast<int>(cells[1].number)) + " " +
                   std::to_string(table.latency[leaf]));
    return rows.size() < 3;
  });
  EXPECT_THAT(rows, ElementsAre("bfloat16 1 0.500000", "bfloat16 2 3.000000", "fp8 7 4.000000"));

  const auto file = root.root() / "out.parquet";
  ASSERT_TRUE(WriteTableParquet(table, file));
  const auto read = ReadParquet(file.string(), {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->num_rows, 4U);
  EXPECT_THAT(read->all_names,
              ElementsAre("gemm_dtype", "m", "n", "k", "latency_ms", "power_w", "energy_wms"));
  EXPECT_THAT(read->Find("m")->integers, ElementsAre(1, 2, 7, 4));
  EXPECT_THAT(read->Find("energy_wms")->reals, ElementsAre(0, 90, 0, 10));
  const ParquetColumn& dtype = *read->Find("gemm_dtype");
  EXPECT_EQ(dtype.dictionary[dtype.codes[2]], "fp8");
  EXPECT_EQ(WriteTableParquet(table, root.root() / "no/such/folder/x.parquet").error().kind,
            ErrorKind::kIo);
}

TEST(Introspection, TableNames) {
  EXPECT_EQ(*ParseTableName("context_attention"), TableId::kContextAttention);
  EXPECT_EQ(*ParseTableName("moe-all-to-all"), TableId::kMoeAllToAll);
  const auto unknown = ParseTableName("gem");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnknownName);
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean gemm"));
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kNumTables; ++i) names.insert(TableName(static_cast<TableId>(i)));
  EXPECT_EQ(names.size(), kNumTables);
}

TEST(RawView, KeepsRowsAsTheyWereWritten) {
  const testing::SyntheticRoot root;
  WriteProducts(root);
  const auto store = root.Open("1.0");
  const auto text = RawTableView(*store, "_gemm_data");
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_TRUE(*text);
  const Json view = Json::parse(**text);
  const Json expected = Json::parse(
      R"({"nvfp4":{"4":{"8":{"8":{"latency":1.0,"power":10.0,"energy":10.0}}}},
          "awq":{"1":{"8":{"8":{"latency":2.0,"power":20.0,"energy":40.0}}}},
          "bfloat16":{"2":{"8":{"8":{"latency":3.0,"power":30.0,"energy":90.0}}},
                      "1":{"8":{"8":{"latency":0.5,"power":0.0,"energy":0.0}}}},
          "fp8":{"7":{"8":{"8":{"latency":4.0,"power":0.0,"energy":0.0}}}}})");
  EXPECT_EQ(view.dump(), expected.dump());
  EXPECT_FALSE(RawTableView(*store, "_moe_data")->has_value());
  EXPECT_EQ(RawTableView(*store, "_no_such_data").error().kind, ErrorKind::kPerfDatabase);
}

TEST(ShippedTables, ViewSizesAndLeaves) {
  IC_REQUIRE_DATA(root);
  struct Case {
    const char* system;
    Backend backend;
    const char* version;
    const char* view;
    std::size_t leaves;
    const char* first;  // path of the first leaf, '/'-separated
    double latency;
  };
  const Case cases[] = {
      {"h200_sxm", Backend::kSglang, "0.5.14", "_compute_scale_data", 1628, nullptr, 0},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_context_attention_data", 35090,
       "bfloat16/fp8/8/256/1024/16/16384/2", 16.05547332763672},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_mhc_module_data", 140, nullptr, 0},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_gdn_data", 8972, nullptr, 0},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_kda_data", 428, nullptr, 0},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_custom_allreduce_data", 69, "half/2/AUTO/128",
       0.0025798401236534116},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_moe_ep_data", 876,
       "deepep_moe/fp8_block/uniform/context/8/256/256/7168/2048/1/2/32", 0.40285257356507437},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_moe_a2a_data", 6316,
       "deepep_ht/dispatch/default/8/1/2048/8/128/4/1", 0.027350204103455258},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_generation_dsa_module_data", 5352, nullptr, 0},
      {"h200_sxm", Backend::kSglang, "0.5.14", "_generation_deepseek_v4_attention_module_data",
       6400, "fp8/bfloat16/64/64/4/2/262145", 0.1281},
      {"b200_sxm", Backend::kVllm, "0.24.0", "_context_mla_module_data", 8784, nullptr, 0},
      {"b200_sxm", Backend::kVllm, "0.24.0", "_generation_mla_module_data", 8832, nullptr, 0},
      {"b200_sxm", Backend::kVllm, "0.24.0", "_moe_a2a_data", 324, nullptr, 0},
      {"gb200", Backend::kTrtllm, "1.3.0rc23", "_moe_low_latency_data", 36045,
       "nvfp4/power_law_1.2/8/256/3072/1024/1/256/1", 0.01621759980916977},
      {"gb200", Backend::kTrtllm, "1.3.0rc23", "_moe_ep_data", 8316, nullptr, 0},
      {"b60", Backend::kVllm, "0.26.0", "_moe_data", 2700, nullptr, 0},
  };
  for (const Case& c : cases) {
    const auto store = TableStore::Open(testing::Identity(root, c.system, c.backend, c.version));
    ASSERT_TRUE(store) << store.error().message;
    const auto text = RawTableView(**store, c.view);
    ASSERT_TRUE(text && *text) << c.view;
    const Json view = Json::parse(**text);
    std::size_t leaves = 0;
    const std::function<void(const Json&)> count = [&](const Json& node) {
      if (node.contains("latency")) {
        ++leaves;
        return;
      }
      for (const auto& child : node) count(child);
    };
    count(view);
    EXPECT_EQ(leaves, c.leaves) << c.system << c.view;
    if (c.first == nullptr) continue;
    std::string path;
    const Json* node = &view;
    while (!node->contains("latency")) {
      path += (path.empty() ? "" : "/") + node->begin().key();
      node = &*node->begin();
    }
    EXPECT_EQ(path, c.first) << c.view;
    EXPECT_EQ((*node)["latency"].get<double>(), c.latency) << c.view;
  }
}

TEST(ShippedTables, SupportedQuantModes) {
  IC_REQUIRE_DATA(root);
  const auto store = Hopper(root);
  ASSERT_NE(store, nullptr);
  EXPECT_THAT(*SupportedQuantModes(*store, "gemm"),
              ElementsAre("bfloat16", "fp8", "fp8_block", "fp8_static"));
  EXPECT_THAT(*SupportedQuantModes(*store, "context_attention"), ElementsAre("bfloat16", "fp8"));
  EXPECT_THAT(*SupportedQuantModes(*store, "moe"),
              ElementsAre("fp8_block", "bfloat16", "w4a16_mxfp4", "int4_wo"));
  EXPECT_THAT(*SupportedQuantModes(*store, "nccl"), ElementsAre("half", "int8"));
  EXPECT_THAT(*SupportedQuantModes(*store, "wideep_context_mla"), ElementsAre("fp8_block"));
  EXPECT_THAT(*SupportedQuantModes(*store, "dsv4_megamoe_module"), IsEmpty());
  EXPECT_EQ(SupportedQuantModes(*store, "gems").error().kind, ErrorKind::kUnknownName);
  EXPECT_THAT(*ContextFmhaModes(*store, "context_attention", "bfloat16"), ElementsAre("bfloat16"));
  EXPECT_THAT(*ContextFmhaModes(*store, "context_attention", "fp8"),
              ElementsAre("bfloat16", "fp8"));
  EXPECT_THAT(*ContextFmhaModes(*store, "context_attention", std::nullopt),
              ElementsAre("bfloat16", "fp8"));
  for (const std::string& key : SupportKeys(Backend::kSglang)) {
    EXPECT_TRUE(SupportedQuantModes(*store, key)) << key;
  }
  EXPECT_EQ(SupportKeys(Backend::kVllm).size(), 13U);
  const auto intel = TableStore::Open(testing::Identity(root, "b60", Backend::kVllm, "0.26.0"));
  ASSERT_TRUE(intel);
  EXPECT_THAT(*SupportedQuantModes(**intel, "nccl"), ::testing::Not(IsEmpty()));
}

TEST(ShippedTables, ExpertCoverage) {
  IC_REQUIRE_DATA(root);
  const auto store = Hopper(root);
  ASSERT_NE(store, nullptr);
  const std::set<ExchangeLayout> layouts = {{8, 1}, {16, 2}, {32, 4}, {64, 8}};
  EXPECT_THAT(MoeAllToAllCoverage(*store, 7168, 8, 256),
              ElementsAre(Pair("deepep_ht", layouts), Pair("deepep_ll", layouts)));
  const auto only_ht = [](std::string_view backend, std::string_view) {
    return backend == "deepep_ht" ? std::optional<std::string>("default") : std::nullopt;
  };
  EXPECT_THAT(MoeAllToAllCoverage(*store, 7168, 8, 256, only_ht),
              ElementsAre(Pair("deepep_ht", layouts)));
  const auto other = [](std::string_view, std::string_view) {
    return std::optional<std::string>("fp8");
  };
  EXPECT_THAT(MoeAllToAllCoverage(*store, 7168, 8, 256, other), IsEmpty());
  EXPECT_THAT(MoeAllToAllCoverage(*store, 7169, 8, 256), IsEmpty());
  EXPECT_THAT(MoeExpertComputeCoverage(*store, 7168, 2048, 8, 256, "fp8_block", "context"),
              ElementsAre(2, 4, 8, 16, 32, 64, 128, 256));
  EXPECT_THAT(MoeExpertComputeCoverage(*store, 7168, 2048, 8, 256, "fp8_block", "other"),
              IsEmpty());
  EXPECT_THAT(MoeLayerCoverage(*store, 7168, 2048, 8, 256, "fp8_block"), ::testing::Not(IsEmpty()));
  EXPECT_THAT(MoeLayerCoverage(*store, 7168, 2048, 8, 256, "nvfp4"), IsEmpty());
}

}  // namespace
}  // namespace infercast
