#include "report/plot_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An experiment of one worker at many batch sizes; rows 3 and 40 are on the front, 3 is picked.
struct Sample {
  WorkerIdentity identity{.model = "model",
                          .system = "h100_sxm",
                          .version = "1.0",
                          .layout = {.tp = 4, .pp = 1, .dp = 1, .cp = 1, .moe_tp = 1, .moe_ep = 1},
                          .quant = {},
                          .parallel = "tp4pp1dp1etp1ep1"};
  ExperimentsResult result;

  explicit Sample(int rows) {
    ExperimentOutcome outcome;
    outcome.name = "agg";
    outcome.task.worker.model = "org/my model";
    outcome.task.worker.system = "h100_sxm";
    outcome.task.workload.isl = 3000;
    outcome.task.workload.prefix = 100;
    for (int i = 0; i < rows; ++i) {
      AggregatedRow row;
      row.worker = &identity;
      row.isl = 3000;
      row.osl = 1000;
      row.bs = i + 1;
      row.ctx_tokens = 3000;
      row.num_total_gpus = 4;
      row.tokens_s_user = 10 + i;
      row.tokens_s_gpu = 100;
      row.seq_s = 1;
      outcome.table.rows.push_back({row, std::nullopt});
    }
    outcome.pick.best = {{.row = 3}};
    outcome.pick.front = {{.row = 3}, {.row = 40}};
    result.outcomes.push_back(std::move(outcome));
  }
};

TEST(ShellWordTest, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(ShellWord("meta-llama/Llama-3.1=70B"), "meta-llama/Llama-3.1=70B");
  EXPECT_EQ(ShellWord("two words"), "'two words'");
  EXPECT_EQ(ShellWord("$(rm -rf)"), "'$(rm -rf)'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
}

TEST(PlotOfTest, KeepsFrontsAndPicksOfManyPoints) {
  const Sample sample(500);
  PlotOptions options;
  options.most_points = 50;
  const PlotData data = PlotOf(sample.result, options);
  EXPECT_LE(data.points.size(), 50U);
  EXPECT_GE(data.points.size(), 45U);
  std::set<double> speeds;
  int picked = 0;
  for (const PlotPoint& p : data.points) {
    speeds.insert(p.tokens_s_user);
    picked += p.picked ? 1 : 0;
  }
  EXPECT_EQ(picked, 1);
  EXPECT_TRUE(speeds.contains(13));
  EXPECT_TRUE(speeds.contains(50));
  // The rest is spread over all rows.
  EXPECT_LT(*speeds.begin(), 30);
  EXPECT_GT(*speeds.rbegin(), 480);
}

TEST(PlotOfTest, GivesTheCommandThatRepeatsAPoint) {
  const Sample sample(60);
  const PlotData data = PlotOf(sample.result, {});
  ASSERT_EQ(data.points.size(), 60U);
  EXPECT_EQ(data.points[7].command,
            "infercast estimate --model 'org/my model' --system h100_sxm --backend trtllm "
            "--backend-version 1.0 --isl 3000 --osl 1000 --prefix 100 --tp-size 4 --batch-size 8 "
            "--ctx-tokens 3000");
  EXPECT_EQ(data.points[7].parallel, "tp4");
}

TEST(PlotOfTest, GivesCommandsOfEncodePoolsAndOfAttentionNodes) {
  Sample sample(2);
  ExperimentOutcome& outcome = sample.result.outcomes[0];
  outcome.table.rows[0].encoders =
      EncoderStage{.language_workers = 3, .workers = 2, .tp = 1, .bs = 4, .memory = 1};
  const auto command = [&](const TaskRow& row) { return EstimateCommand(row, outcome.task); };
  EXPECT_THAT(command(outcome.table.rows[0]),
              HasSubstr("--encoder-pool --encoder-tp 1 --encoder-batch-size 4 "
                        "--encoder-num-workers 2 --language-num-workers 3"));
  EXPECT_THAT(command(outcome.table.rows[1]), Not(HasSubstr("encoder")));
  // What estimate has no option for is not offered.
  outcome.task.epd.latency_correction = 1.2;
  EXPECT_EQ(command(outcome.table.rows[0]), "");

  AfdRow afd;
  afd.attention_worker = afd.ffn_worker = &sample.identity;
  afd.layout.attention_nodes = 2;
  afd.layout.ffn_nodes = 1;
  afd.layout.attention_tp = 4;
  afd.layout.expert_parallel = 8;
  afd.schedule.batch = 96;
  afd.schedule.micro_batches = 2;
  EXPECT_THAT(command({afd, std::nullopt}),
              HasSubstr("--n-a-nodes 2 --n-f-nodes 1 --a-tp-size 4 --a-batch-size 96 "
                        "--f-moe-ep-size 8 --num-microbatches 2 --pipeline-model optimistic "
                        "--afd-phase decode --no-afd-combined-with-pd"));
  afd.partner = AfdStaticPartner{.worker = &sample.identity, .bs = 5};
  EXPECT_THAT(command({afd, std::nullopt}), HasSubstr("--tp-size 4 --batch-size 5"));
}

TEST(PlotOfTest, ShowsCostsOnlyWithPrices) {
  const Sample sample(60);
  const auto has_cost = [](const PlotData& data) {
    for (const auto& [name, value] : data.points[0].facts) {
      if (name == "per request") return true;
    }
    return false;
  };
  PlotOptions options;
  EXPECT_FALSE(has_cost(PlotOf(sample.result, options)));
  options.prices.any = 2;
  EXPECT_TRUE(has_cost(PlotOf(sample.result, options)));
}

}  // namespace
}  // namespace infercast
