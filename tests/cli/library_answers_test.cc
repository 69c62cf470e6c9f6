// The library and the program are one model: the same question has the same figures, natively those
// of the benchmark run in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

// The public names stand beside the inner ones, as in the library's own sources.
#define INFERCAST_WITHIN_LIBRARY
#include "cli/estimate_command.h"
#include "cli/recommend_command.h"
#include "cli/run_command.h"
#include "cli/sweep_command.h"
#include "infercast/infercast.hpp"
#include "tables/measured_data.h"

namespace infercast {
namespace {

using nlohmann::json;

void SameFigures(const json& figures, const v1::FormulaFigures& f, const std::string& what) {
  EXPECT_EQ(figures["ttft_ms"], f.ttft_ms) << what;
  EXPECT_EQ(figures["tpot_ms"], f.tpot_ms) << what;
  EXPECT_EQ(figures["request_latency_ms"], f.request_latency_ms) << what;
  EXPECT_EQ(figures["tokens_per_s"], f.tokens_per_s) << what;
  EXPECT_EQ(figures["tokens_per_s_per_gpu"], f.tokens_per_s_per_gpu) << what;
  EXPECT_EQ(figures["tokens_per_s_per_user"], f.tokens_per_s_per_user) << what;
  EXPECT_EQ(figures["requests_per_s"], f.requests_per_s) << what;
  EXPECT_EQ(figures["concurrency"], f.concurrency) << what;
}

v1::FormulaFigures FiguresOf(const v1::Forecast& f) {
  return {f.ttft_ms,
          f.tpot_ms,
          f.request_latency_ms,
          f.tokens_per_s,
          f.tokens_per_s_per_gpu,
          f.tokens_per_s_per_user,
          f.requests_per_s,
          f.concurrency};
}

void SameDistribution(const json& told, const v1::Distribution& d) {
  EXPECT_EQ(told["mean"], d.mean);
  EXPECT_EQ(told["median"], d.median);
  EXPECT_EQ(told["p90"], d.p90);
  EXPECT_EQ(told["p99"], d.p99);
}

void SameEstimate(const json& told, const v1::Forecast& f) {
  EXPECT_EQ(told["scored_by"], f.scored_by);
  SameFigures(told["figures"], FiguresOf(f), "figures");
  SameFigures(told["formula"], f.formula, "formula");
  ASSERT_EQ(told.contains("serving"), f.serving.has_value());
  if (!f.serving) return;
  const json& run = told["serving"];
  const v1::ServingForecast& s = *f.serving;
  EXPECT_EQ(run.contains("rate"), s.rate.has_value());
  if (s.rate) {
    EXPECT_EQ(run["rate"], *s.rate);
  }
  if (s.concurrency) {
    EXPECT_EQ(run["concurrency"], *s.concurrency);
  }
  EXPECT_EQ(run["requests"], s.requests);
  EXPECT_EQ(run["shortest"], s.shortest);
  EXPECT_EQ(run["seed"], s.seed);
  SameDistribution(run["ttft_ms"], s.ttft_ms);
  SameDistribution(run["tpot_ms"], s.tpot_ms);
  EXPECT_EQ(run["ttft_interval_ms"], json({s.ttft_interval_ms.low, s.ttft_interval_ms.high}));
  EXPECT_EQ(run["tpot_interval_ms"], json({s.tpot_interval_ms.low, s.tpot_interval_ms.high}));
  const v1::FirstTokenParts& p = s.ttft_parts_ms;
  EXPECT_EQ(run["ttft_parts_ms"], json({{"front_end", p.front_end},
                                        {"polling", p.polling},
                                        {"queue", p.queue},
                                        {"prefill", p.prefill},
                                        {"transfer", p.transfer}}));
  EXPECT_EQ(run["requests_per_s"], s.requests_per_s);
  EXPECT_EQ(run["output_tokens_per_s"], s.output_tokens_per_s);
  EXPECT_EQ(run["request_latency_ms"], s.request_latency_ms);
  EXPECT_EQ(run["mean_running"], s.mean_running);
  EXPECT_EQ(run["context_step_share"], s.context_step_share);
  EXPECT_EQ(run["peak_kv_share"], s.peak_kv_share);
}

// A picked row of a search: the formula's columns, and those of the run.
void SameRow(const json& told, const v1::Forecast& f) {
  EXPECT_EQ(told["scored_by"], f.scored_by);
  EXPECT_EQ(told["ttft_ms"], f.formula.ttft_ms);
  EXPECT_EQ(told["tpot_ms"], f.formula.tpot_ms);
  EXPECT_EQ(told["tokens_per_s_per_gpu"], f.formula.tokens_per_s_per_gpu);
  EXPECT_EQ(told["concurrency"], f.concurrency);
  EXPECT_EQ(told["num_total_gpus"], f.num_gpus);
  EXPECT_EQ(told["tokens_per_s_per_cluster_gpu"], *f.tokens_per_s_per_gpu_cluster);
  ASSERT_TRUE(f.serving);
  EXPECT_EQ(told["closed_loop_ttft_ms"], f.ttft_ms);
  EXPECT_EQ(told["closed_loop_ttft_p99_ms"], f.serving->ttft_ms.p99);
  EXPECT_EQ(told["closed_loop_tpot_ms"], f.tpot_ms);
  EXPECT_EQ(told["closed_loop_tpot_p99_ms"], f.serving->tpot_ms.p99);
  EXPECT_EQ(told["closed_loop_request_latency_ms"], f.request_latency_ms);
  EXPECT_EQ(told["closed_loop_requests_per_s"], f.requests_per_s);
  EXPECT_EQ(told["closed_loop_tokens_per_s_per_gpu"], f.tokens_per_s_per_gpu);
  EXPECT_EQ(told["closed_loop_tokens_per_s_per_user"], f.tokens_per_s_per_user);
}

void SameSearch(const json& told, const v1::SearchResult& found) {
  EXPECT_EQ(told["chosen"], found.chosen);
  ASSERT_EQ(told["experiments"].size(), found.experiments.size());
  for (std::size_t e = 0; e < found.experiments.size(); ++e) {
    const json& experiment = told["experiments"][e];
    const v1::SearchExperiment& mine = found.experiments[e];
    EXPECT_EQ(experiment["name"], mine.name);
    EXPECT_EQ(experiment["best_value"], mine.best_value);
    EXPECT_EQ(experiment["meets_target"], !mine.exceeded);
    ASSERT_EQ(experiment["best"].size(), mine.best.size());
    ASSERT_FALSE(mine.best.empty());
    for (std::size_t i = 0; i < mine.best.size(); ++i) SameRow(experiment["best"][i], mine.best[i]);
    ASSERT_EQ(experiment["front"].size(), mine.front.size());
    for (std::size_t i = 0; i < mine.front.size(); ++i) {
      SameRow(experiment["front"][i], mine.front[i]);
    }
  }
}

class LibraryAnswers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::SystemsRoot()) GTEST_SKIP() << "no measured data package";
  }
  static json Told(const std::function<void(CLI::App&, CliContext&)>& add, const char* command,
                   const std::vector<const char*>& more, const char* model = "Qwen/Qwen3-30B-A3B") {
    std::vector<const char*> arguments = {command,    "--model",   model,    "--system",
                                          "h200_sxm", "--backend", "sglang", "--isl",
                                          "3000",     "--osl",     "300",    "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const testing::Outcome outcome = testing::RunCommand(std::move(arguments), add);
    EXPECT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
    return json::parse(outcome.out);
  }
  static v1::ModelOptions Model() {
    v1::ModelOptions model;
    model.model = "Qwen/Qwen3-30B-A3B";
    model.data.system = "h200_sxm";
    model.data.backend = "sglang";
    return model;
  }
  static v1::EstimateOptions Aggregated() {
    v1::EstimateOptions options;
    options.model = Model();
    options.model.parallelism.tp = 2;
    options.model.parallelism.moe_ep = 2;
    options.workload = {.isl = 3000, .osl = 300};
    options.batch_size = 24;
    return options;
  }
  static v1::Forecast Answer(const v1::EstimateOptions& options) {
    v1::Result<v1::Forecast> forecast = v1::Estimate(options);
    EXPECT_TRUE(forecast) << forecast.error().message;
    return forecast ? *std::move(forecast) : v1::Forecast();
  }
};

const std::vector<const char*> kAggregated = {"--tp", "2", "--ep", "2", "--bs", "24"};

TEST_F(LibraryAnswers, AggregatedEstimates) {
  v1::EstimateOptions options = Aggregated();
  const json told = Told(AddEstimateCommand, "estimate", kAggregated);
  EXPECT_EQ(told["scored_by"], "closed_loop");
  SameEstimate(told, Answer(options));

  const auto with = [&](const std::vector<const char*>& more) {
    std::vector<const char*> all = kAggregated;
    all.insert(all.end(), more.begin(), more.end());
    return Told(AddEstimateCommand, "estimate", all);
  };
  options.load.concurrency = 7;
  options.load.corrections = {"first_token_ms=12"};
  options.load.recipe = true;
  options.load.seed = 5;
  SameEstimate(
      with({"--concurrency", "7", "--correction", "first_token_ms=12", "--recipe", "--seed", "5"}),
      Answer(options));
  options.load = {};
  options.load.rate = 1.5;
  options.load.num_requests = 60;
  options.load.no_corrections = true;
  options.load.max_num_seqs = 8;
  SameEstimate(
      with({"--rate", "1.5", "--num-requests", "60", "--no-corrections", "--max-num-seqs", "8"}),
      Answer(options));
  options.score = "formula";
  const json formula = with({"--rate", "1.5", "--num-requests", "60", "--no-corrections",
                             "--max-num-seqs", "8", "--score", "formula"});
  EXPECT_EQ(formula["scored_by"], "formula");
  SameEstimate(formula, Answer(options));
  options.load = {};
  SameEstimate(with({"--score", "formula"}), Answer(options));
  EXPECT_FALSE(Answer(options).serving);
  options.score.clear();
  options.model.data.behaviour = "reference";
  SameEstimate(with({"--behaviour", "reference"}), Answer(options));
  options.load.concurrency = 4;
  SameEstimate(with({"--behaviour", "reference", "--concurrency", "4"}), Answer(options));
}

TEST_F(LibraryAnswers, DisaggregatedEstimates) {
  v1::EstimateOptions options = Aggregated();
  options.mode = "disagg";
  options.prefill.parallelism.tp = 1;
  options.prefill.parallelism.moe_ep = 1;
  options.prefill.workers = 2;
  options.decode.parallelism.tp = 2;
  options.decode.parallelism.moe_ep = 2;
  options.decode.batch_size = 32;
  const json told =
      Told(AddEstimateCommand, "estimate",
           {"--estimate-mode", "disagg", "--p-tp", "1", "--p-ep", "1", "--p-workers", "2", "--p-bs",
            "1", "--d-tp", "2", "--d-ep", "2", "--d-workers", "1", "--d-bs", "32"});
  EXPECT_EQ(told["scored_by"], "closed_loop");
  EXPECT_GT(told["serving"]["ttft_parts_ms"]["transfer"], 0.0);
  SameEstimate(told, Answer(options));
}

TEST_F(LibraryAnswers, PoolsFollowTheSharedSizes) {
  v1::EstimateOptions options = Aggregated();
  options.mode = "disagg";
  SameEstimate(Told(AddEstimateCommand, "estimate",
                    {"--estimate-mode", "disagg", "--tp", "2", "--ep", "2", "--bs", "24"}),
               Answer(options));
  const v1::Forecast answer = Answer(options);
  EXPECT_EQ(answer.workers[0].parallelism.tp, 2);
  EXPECT_EQ(answer.workers[0].batch_size, 1);
  EXPECT_EQ(answer.workers[1].batch_size, 24);
  EXPECT_THAT(answer.notes, ::testing::Contains("no number of decode workers given: 1"));
  // Where one pool has a width of its experts the other needs one.
  options.model.parallelism.moe_ep.reset();
  const v1::Forecast open = Answer(options);
  EXPECT_EQ(open.workers[1].parallelism.moe_ep, 2);
  options.prefill.parallelism.moe_ep = 2;
  const v1::Result<v1::Forecast> half = v1::Estimate(options);
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, ::testing::HasSubstr("decode workers have no expert width"));
}

TEST_F(LibraryAnswers, ImagesAreNoBenchmarkOfTheirText) {
  v1::EstimateOptions options;
  options.model.model = "Qwen/Qwen3-VL-8B-Instruct";
  options.model.data.system = "h200_sxm";
  options.workload.image_height = options.workload.image_width = 512;
  options.batch_size = 8;
  const v1::Forecast answer = Answer(options);
  EXPECT_EQ(answer.scored_by, "formula");
  EXPECT_FALSE(answer.serving);
  EXPECT_THAT(answer.notes, ::testing::Contains(::testing::HasSubstr("no image encoder")));
  options.load.concurrency = 2;
  const v1::Result<v1::Forecast> loaded = v1::Estimate(options);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, v1::ErrorKind::kInvalidArgument);
}

// Its experts were measured nowhere: a load is planned with estimates.
TEST_F(LibraryAnswers, RecommendationsOfWhatIsNotMeasured) {
  const char* name = "stepfun-ai/Step-3.7-Flash";
  v1::RecommendOptions load;
  load.search.model = Model();
  load.search.model.model = name;
  load.search.workload = {.isl = 3000, .osl = 300};
  load.search.score = "formula";
  load.request_rate = 12;
  const v1::Result<v1::SearchResult> found = v1::Recommend(load);
  ASSERT_TRUE(found) << found.error().message;
  const json told =
      Told(AddRecommendCommand, "recommend", {"--request-rate", "12", "--score", "formula"}, name);
  EXPECT_EQ(told["chosen"], found->chosen);
  ASSERT_EQ(told["experiments"].size(), found->experiments.size());
  for (std::size_t e = 0; e < found->experiments.size(); ++e) {
    const v1::SearchExperiment& mine = found->experiments[e];
    EXPECT_EQ(told["experiments"][e]["best_value"], mine.best_value);
    const json& row = told["experiments"][e]["best"][0];
    EXPECT_EQ(row["database_mode"], "HYBRID");
    EXPECT_EQ(row["total_gpus_needed"], *mine.best.front().total_gpus);
    EXPECT_EQ(row["ttft_ms"], mine.best.front().ttft_ms);
  }
  load.search.model.data.mode = "SILICON";
  EXPECT_FALSE(v1::Recommend(load));
}

TEST_F(LibraryAnswers, Searches) {
  v1::SweepOptions options;
  options.model = Model();
  options.workload = {.isl = 3000, .osl = 300};
  options.total_gpus = 8;
  const v1::Result<v1::SearchResult> found = v1::Sweep(options);
  ASSERT_TRUE(found) << found.error().message;
  const json told = Told(AddSweepCommand, "sweep", {"--gpus", "8"});
  SameSearch(told, *found);
  // Notes say whose they are.
  for (const json& note : told["notes"]) {
    EXPECT_THAT(note.get<std::string>(), ::testing::MatchesRegex("(agg|disagg|agg, disagg): .*"));
  }
  EXPECT_EQ(found->Best().best.front().scored_by, "closed_loop");

  v1::RecommendOptions load;
  load.search = options;
  load.request_rate = 12;
  const v1::Result<v1::SearchResult> enough = v1::Recommend(load);
  ASSERT_TRUE(enough) << enough.error().message;
  SameSearch(Told(AddRecommendCommand, "recommend", {"--request-rate", "12"}), *enough);
}

}  // namespace
}  // namespace infercast
