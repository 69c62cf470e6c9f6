// The table of whole forward passes: its metadata file, its row rules, its repair of faked rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "synthetic_root.h"
#include "tables/digest.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::Column;

struct Row {
  std::string kind;
  std::int64_t batch = 1, prefill = 0, kv = 0;
  double latency = 1;
  std::string regime = "real_kv";
  std::string cell = "c";
};

class ForwardPassTable : public ::testing::Test {
 protected:
  std::vector<Column> Columns(const std::vector<Row>& rows) const {
    const std::size_t n = rows.size();
    const auto text = [&](std::string name, std::string value) {
      return testing::Texts(std::move(name), std::vector<std::optional<std::string>>(n, value));
    };
    const auto count = [&](std::string name, std::int64_t value) {
      return testing::Integers(std::move(name), std::vector<std::optional<std::int64_t>>(n, value));
    };
    const auto each = [&](auto get) {
      std::vector<std::optional<std::decay_t<decltype(get(rows[0]))>>> cells;
      for (const Row& row : rows) cells.emplace_back(get(row));
      return cells;
    };
    return {testing::Texts("cell_id", each([](const Row& r) { return r.cell; })),
            text("model_path", "org/model"),
            text("system", "sys"),
            text("backend", "vllm"),
            text("backend_version", "1.0"),
            text("weight_quantization", "none"),
            text("gemm_quant_mode", "bfloat16"),
            text("moe_quant_mode", "bfloat16"),
            text("fmha_quant_mode", "bfloat16"),
            text("comm_quant_mode", "half"),
            text("kv_cache_dtype", "bfloat16"),
            count("tp", 1),
            count("pp", 1),
            count("dp", 1),
            count("moe_tp", 1),
            count("moe_ep", 1),
            count("cp", 1),
            text("moe_backend", "auto"),
            text("attention_backend", "auto"),
            testing::Flags("enable_wideep", std::vector<std::optional<bool>>(n, false)),
            testing::Flags("enable_eplb", std::vector<std::optional<bool>>(n, false)),
            testing::Texts("workload_kind", each([](const Row& r) { return r.kind; })),
            text("partition_policy", "balanced_v1"),
            testing::Integers("batch_size", each([](const Row& r) { return r.batch; })),
            testing::Integers("total_prefill_tokens", each([](const Row& r) { return r.prefill; })),
            testing::Integers("total_kv_read_tokens", each([](const Row& r) { return r.kv; })),
            testing::Reals("latency_ms", each([](const Row& r) { return r.latency; })),
            testing::Texts("kv_seed_regime", each([](const Row& r) { return r.regime; }))};
  }

  void Write(const std::vector<Column>& columns, std::size_t rows, const Json& changes = {},
             const char* folder = "vllm/1.0") {
    const fs::path file = root_.data() / folder / "fpm_forward_perf.parquet";
    testing::WriteParquet(file, columns);
    Json metadata = {{"schema_name", "aic_fpm_forward_perf"},
                     {"schema_version", 6},
                     {"coordinate_system", "iteration_totals_balanced_v1"},
                     {"measurement_policy", "dynamo_native_single_sample_v1"},
                     {"system", "sys"},
                     {"backend", "vllm"},
                     {"backend_version", "1.0"},
                     {"parquet_sha256", ToHex(*Sha256OfFile(file))},
                     {"row_count", rows}};
    if (!changes.is_null()) metadata.update(changes);
    testing::WriteText(root_.data() / folder / "fpm_forward_perf.metadata.json", metadata.dump());
  }
  void Write(const std::vector<Row>& rows, const Json& changes = {}) {
    Write(Columns(rows), rows.size(), changes);
  }

  // Latency of a decode point, or none.
  std::optional<double> Decode(double batch, double kv) {
    const auto store = root_.Open("1.0");
    if (store == nullptr) return std::nullopt;
    const auto& slot = store->Get(TableId::kFpmDecode);
    corrupt_ = slot.corrupt;
    message_ = slot.error.message;
    if (slot.table == nullptr) return std::nullopt;
    const auto view = slot.table->Slice(
        {"org/model", "bfloat16|bfloat16|bfloat16|half|bfloat16|1|1|1|1|1|1|auto|auto|False|False",
         batch});
    if (!view) return std::nullopt;
    const auto node = view->Find(kv);
    if (!node) return std::nullopt;
    return slot.table->latency[*node];
  }

  testing::SyntheticRoot root_;
  bool corrupt_ = false;
  std::string message_;
};

const std::vector<Row> kDecodeRows = {{"decode", 1, 0, 1000, 1.0},
                                      {"decode", 1, 0, 2000, 1.5},
                                      {"decode", 1, 0, 4000, 9.0, "fake_fallback"},
                                      {"decode", 2, 0, 1000, 1.1},
                                      {"decode", 2, 0, 4000, 7.0, "fake_fallback"}};

TEST_F(ForwardPassTable, FakedRowsFollowTheLineOfTheHonestOnes) {
  Write(kDecodeRows);
  EXPECT_EQ(Decode(1, 2000), 1.5);
  EXPECT_EQ(Decode(1, 4000), 2.5);
  EXPECT_EQ(Decode(2, 4000), 7.0);  // one honest row is no line
  const testing::ScopedEnvironment raw("AIC_FPM_FAKE_FALLBACK_RAW", "1");
  EXPECT_EQ(Decode(1, 4000), 9.0);
}

TEST_F(ForwardPassTable, PrefillHasAnAxisMore) {
  Write({{"prefill", 1, 512, 0, 10}, {"prefill", 2, 512, 4096, 12}, {"decode", 1, 0, 2, 2}});
  const auto store = root_.Open("1.0");
  const auto& slot = store->Get(TableId::kFpmPrefill);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  ASSERT_EQ(slot.table->levels.size(), 5U);
  EXPECT_EQ(slot.table->num_leaves(), 2U);
  EXPECT_EQ(slot.table->levels[3].name, "kv");
  EXPECT_EQ(slot.table->levels[4].name, "prefill_tokens");
}

TEST_F(ForwardPassTable, OnlyTheFlatFolderCounts) {
  Write(Columns(kDecodeRows), kDecodeRows.size(), {}, "fpm/vllm/1.0");
  EXPECT_FALSE(Decode(1, 1000));
  EXPECT_FALSE(corrupt_);
}

TEST_F(ForwardPassTable, TheMetadataMustFit) {
  for (const Json& change :
       {Json{{"schema_name", "other"}}, Json{{"schema_version", 5}}, Json{{"schema_version", "6"}},
        Json{{"coordinate_system", "x"}}, Json{{"measurement_policy", nullptr}},
        Json{{"system", "h200"}}, Json{{"backend", "sglang"}}, Json{{"backend_version", "2.0"}},
        Json{{"parquet_sha256", std::string(64, '0')}}, Json{{"row_count", 4}},
        Json{{"row_count", nullptr}}}) {
    Write(kDecodeRows, change);
    EXPECT_FALSE(Decode(1, 1000)) << change;
    EXPECT_TRUE(corrupt_) << change;
    EXPECT_THAT(message_, ::testing::HasSubstr(change.begin().key())) << change;
  }
  Write(kDecodeRows, Json{{"schema_version", 6.0}, {"row_count", 5.0}});
  EXPECT_TRUE(Decode(1, 1000));
  for (const char* text : {"", "[1]", "{\"schema_name\":"}) {
    testing::WriteText(root_.data() / "vllm/1.0/fpm_forward_perf.metadata.json", text);
    EXPECT_FALSE(Decode(1, 1000)) << text;
    EXPECT_TRUE(corrupt_);
  }
  fs::remove(root_.data() / "vllm/1.0/fpm_forward_perf.metadata.json");
  EXPECT_FALSE(Decode(1, 1000));
  EXPECT_TRUE(corrupt_);
}

TEST_F(ForwardPassTable, EveryRowIsChecked) {
  const std::vector<std::vector<Row>> bad = {
      {{"mixed", 1, 0, 10, 1}},
      {{"decode", 0, 0, 10, 1}},
      {{"decode", 1, 5, 10, 1}},
      {{"prefill", 1, 0, 10, 1}},
      {{"decode", 1, 0, -1, 1}},
      {{"decode", 1, 0, 10, 0}},
      {{"decode", 1, 0, 10, -1}},
      {{"decode", 1, 0, 10, std::numeric_limits<double>::infinity()}},
      {{"decode", 1, 0, 10, std::numeric_limits<double>::quiet_NaN()}},
      {{"decode", 1, 0, 10, 1}, {"decode", 1, 0, 10, 2}},
      {{"decode", 1, 0, 10, 1}, {"decode", 1, 0, 10, 2, "real_kv", "other"}},
      {},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Write(bad[i]);
    EXPECT_FALSE(Decode(1, 10)) << i;
    EXPECT_TRUE(corrupt_) << i;
  }
  auto columns = Columns(kDecodeRows);
  for (Column& column : columns) {
    if (column.name == "enable_eplb") {
      column = testing::Integers("enable_eplb", {0, 0, 0, 0, 0});
    }
  }
  Write(columns, kDecodeRows.size());
  EXPECT_FALSE(Decode(1, 1000));
  EXPECT_TRUE(corrupt_);
}

TEST_F(ForwardPassTable, ToyRoot) {
  const auto store =
      TableStore::Open(testing::Identity(testing::ToyRoot(), "toy_sxm", Backend::kTrtllm, "9.9.9"));
  ASSERT_TRUE(store) << store.error().message;
  const auto& prefill = (*store)->Get(TableId::kFpmPrefill);
  ASSERT_NE(prefill.table, nullptr) << prefill.error.message;
  const auto& decode = (*store)->Get(TableId::kFpmDecode);
  ASSERT_NE(decode.table, nullptr) << decode.error.message;
  // The other tables of that root carry power.
  for (const TableId id : {TableId::kGemm, TableId::kContextAttention, TableId::kMoe,
                           TableId::kNccl, TableId::kCustomAllReduce}) {
    const auto& slot = (*store)->Get(id);
    ASSERT_NE(slot.table, nullptr) << TableName(id) << slot.error.message;
    EXPECT_GT(slot.table->power[0], 0) << TableName(id);
    EXPECT_GT(slot.table->energy[0], 0) << TableName(id);
  }
}

}  // namespace
}  // namespace infercast
