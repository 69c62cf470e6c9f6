// Result tables and the forms they are written in.
#include "report/result_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "report/csv.h"
#include "report/table.h"
#include "report/text_table.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

WorkerIdentity Identity() {
  WorkerIdentity id;
  id.model = "org/model, large";
  id.system = "h200_sxm";
  id.version = "1.2";
  id.layout = {.tp = 2, .dp = 4, .moe_tp = 1, .moe_ep = 8};
  id.parallel = "tp2pp1dp4etp1ep8";
  return id;
}

TaskRow Aggregated(const WorkerIdentity& id) {
  AggregatedRow row;
  row.worker = &id;
  row.isl = 4000;
  row.osl = 1000;
  row.bs = 64;
  row.concurrency = 256;
  row.ttft = 1100.5;
  row.tpot = 20;
  row.tokens_s = 8000;
  row.tokens_s_gpu = 1000.25;
  row.seq_s = 8;
  row.num_total_gpus = 8;
  row.ctx_tokens = 8000;
  return {row, std::nullopt};
}

TaskRow Disaggregated(const WorkerIdentity& id) {
  DisaggregatedRow row;
  row.prefill.worker = row.decode.worker = &id;
  row.prefill_workers = 3;
  row.decode_workers = 1;
  row.num_total_gpus = 32;
  return {row, std::nullopt};
}

std::size_t Position(const ResultTable& table, std::string_view name) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == name) return i;
  }
  ADD_FAILURE() << "no column " << name;
  return 0;
}

ResultTable One(const TaskRow& row, const Pick* pick, const ResultContext& context) {
  const ResultRow r{&row, pick, pick != nullptr ? std::size_t{1} : 0, &context};
  return TableOf({&r, 1}, context);
}

TEST(ResultColumns, AggregatedRowsCarryTheFieldsOfTheField) {
  const WorkerIdentity id = Identity();
  const TaskRow row = Aggregated(id);
  ResultContext context;
  context.experiment = "agg";
  context.total_gpus = 20;
  Pick pick;
  pick.tokens_s_gpu_cluster = 800.2;
  const ResultTable table = One(row, &pick, context);
  const auto cell = [&](std::string_view name) { return table.rows[0][Position(table, name)]; };
  EXPECT_EQ(cell("tokens/s/gpu"), Cell(1000.25));
  EXPECT_EQ(cell("tokens/s/gpu_cluster"), Cell(800.2));
  EXPECT_EQ(cell("moe_ep"), Cell(std::int64_t{8}));
  EXPECT_EQ(cell("concurrency"), Cell(std::int64_t{256}));
  EXPECT_EQ(cell("replicas"), Cell(std::int64_t{2}));
  EXPECT_EQ(cell("rank"), Cell(std::int64_t{1}));
  EXPECT_EQ(cell("tpot"), Cell(20.0));
  EXPECT_EQ(cell("power_w"), Cell());  // nothing was measured
  context.inclusive_tpot = true;
  const ResultTable inclusive = One(row, &pick, context);
  EXPECT_EQ(inclusive.rows[0][Position(inclusive, "tpot")], Cell((1100.5 + 20.0 * 999) / 1000));
}

TEST(ResultColumns, KeysAndNamesAreUniqueAndEveryRowIsComplete) {
  const WorkerIdentity id = Identity();
  AfdRow afd;
  afd.attention_worker = afd.ffn_worker = &id;
  const TaskRow rows[] = {Aggregated(id), Disaggregated(id), {afd, std::nullopt}};
  const ServingMode modes[] = {ServingMode::kAggregated, ServingMode::kDisaggregated,
                               ServingMode::kAfd};
  for (std::size_t i = 0; i < 3; ++i) {
    ResultContext context;
    context.mode = modes[i];
    context.load = context.load_capped = context.encoder_pool = true;
    Pick pick;
    const ResultTable table = One(rows[i], &pick, context);
    ASSERT_EQ(table.rows[0].size(), table.columns.size());
    std::set<std::string_view> names, keys;
    for (const ColumnInfo& column : table.columns) {
      EXPECT_EQ(column.name.empty(), column.key.empty()) << column.name << column.key;
      EXPECT_FALSE(column.name.empty() && column.heading.empty());
      if (column.name.empty()) continue;
      EXPECT_TRUE(names.insert(column.name).second) << column.name;
      EXPECT_TRUE(keys.insert(column.key).second) << column.key;
    }
  }
}

TEST(ResultColumns, APhaseThatDidNotRunHasNoValue) {
  const WorkerIdentity id = Identity();
  AfdRow afd;
  afd.attention_worker = afd.ffn_worker = &id;
  afd.decode = AfdPhaseTimes{.attention = 0.5, .step = 12};
  ResultContext context;
  context.mode = ServingMode::kAfd;
  const TaskRow row{afd, std::nullopt};
  const ResultTable table = One(row, nullptr, context);
  EXPECT_EQ(table.rows[0][Position(table, "prefill_t_step")], Cell());
  EXPECT_EQ(table.rows[0][Position(table, "decode_t_step")], Cell(12.0));
  EXPECT_EQ(table.rows[0][Position(table, "t_a_layer")], Cell(0.5));
  // The phase of a row that has but one stands in a column of its own.
  EXPECT_EQ(table.rows[0][Position(table, "(d)impl")], Cell());
  EXPECT_EQ(table.rows[0][Position(table, "(p)impl")], Cell());
  EXPECT_EQ(table.rows[0][Position(table, "(p)workers")], Cell());
}

TEST(ResultColumns, DeploymentsReadAsSentences) {
  const WorkerIdentity id = Identity();
  EXPECT_EQ(DescribeDeployment(Aggregated(id)),
            "1 x tp2 dp4 ep8, batch 64, 8000 prefill tokens a step");
  TaskRow row = Disaggregated(id);
  std::get<DisaggregatedRow>(row.figures).prefill.bs = 1;
  std::get<DisaggregatedRow>(row.figures).decode.bs = 84;
  row.encoders = EncoderStage{.workers = 2, .tp = 1, .bs = 4};
  EXPECT_EQ(DescribeDeployment(row),
            "prefill 3 x tp2 dp4 ep8 (batch 1), decode 1 x tp2 dp4 ep8 (batch 84), encode 2 x tp1 "
            "(batch 4)");
}

TEST(ResultColumns, ALoadNeedsReplicasAClusterHoldsThem) {
  const WorkerIdentity id = Identity();
  const TaskRow row = Aggregated(id);
  ResultContext context;
  ResultRow r{&row, nullptr, 0, &context};
  EXPECT_EQ(ReplicasOf(r), 0);
  EXPECT_DOUBLE_EQ(ClusterTokensPerSecond(r), 8000);
  context.total_gpus = 31;
  EXPECT_EQ(ReplicasOf(r), 3);
  context.load = true;
  EXPECT_EQ(ReplicasOf(r), 0);
  Pick pick;
  pick.replicas_needed = 5;
  r.pick = &pick;
  EXPECT_EQ(ReplicasOf(r), 5);
  EXPECT_DOUBLE_EQ(ClusterTokensPerSecond(r), 40000);
}

TEST(Csv, QuotesWhatMustBeAndKeepsEveryDigit) {
  ResultTable table;
  table.columns = {{"a,b", "a", "", ""}, {"", "", "", "shown only"}, {"c", "c", "", ""}};
  table.rows = {{std::string("say \"hi\"\nthere"), std::string("x"), 0.1 + 0.2},
                {std::monostate{}, std::string("y"), std::int64_t{7}},
                {true, std::monostate{}, 64.0}};
  EXPECT_EQ(CsvOf(table),
            "\"a,b\",c\n"
            "\"say \"\"hi\"\"\nthere\",0.30000000000000004\n"
            ",7\n"
            "true,64\n");
}

TEST(Table, UnitesColumnsOfPartsInTheirPlaces) {
  ResultTable a, b;
  a.columns = {{"x", "x", "", ""}, {"z", "z", "", ""}};
  a.rows = {{std::int64_t{1}, std::int64_t{2}}};
  b.columns = {{"x", "x", "", ""}, {"y", "y", "", ""}, {"z", "z", "", ""}};
  b.rows = {{std::int64_t{3}, std::int64_t{4}, std::int64_t{5}}};
  EXPECT_EQ(CsvOf(Concatenate({a, b})), "x,y,z\n1,,2\n3,4,5\n");
  EXPECT_EQ(CsvOf(Concatenate({b, a})), "x,y,z\n3,4,5\n1,,2\n");
}

TEST(Table, NumbersThatAreNoneAreNoValue) {
  EXPECT_EQ(RealCell(NAN), Cell());
  EXPECT_EQ(RealCell(INFINITY), Cell());
  EXPECT_EQ(RealCell(1.5), Cell(1.5));
}

TEST(TextTable, AlignsNumbersRightAndTextLeft) {
  ResultTable table;
  table.columns = {{"n", "n", "ms", "time", 1},
                   {"t", "t", "", "name"},
                   {"hidden", "hidden", "", ""},
                   {"empty", "empty", "", "empty"}};
  table.rows = {{1.25, std::string("é"), true, {}}, {100.0, std::string("long"), true, {}}};
  EXPECT_EQ(TextOf(table, 1),
            "  time  name\n"
            "    ms\n"
            "   1.2  é\n"
            " 100.0  long\n");
  table.rows.clear();
  EXPECT_EQ(TextOf(table), "");
}

}  // namespace
}  // namespace infercast
