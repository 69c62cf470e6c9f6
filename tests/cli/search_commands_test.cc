// sweep, recommend and run: their answers in every form, and what they say of wrong requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/estimate_command.h"
#include "cli/experiments_command.h"
#include "cli/recommend_command.h"
#include "cli/run_command.h"
#include "cli/small_model.h"
#include "cli/sweep_command.h"

namespace infercast {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;

class SearchCommands : public ::testing::Test {
 protected:
  Outcome Sweep(const std::vector<const char*>& more) const {
    return model_.Ask(AddSweepCommand, "sweep", more);
  }
  Outcome Recommend(const std::vector<const char*>& more) const {
    return model_.Ask(AddRecommendCommand, "recommend", more);
  }
  Outcome RunFile(const std::string& text, const std::vector<const char*>& more = {}) const {
    const std::string file = model_.path("experiments.yaml");
    testing::WriteText(file, text);
    std::vector<const char*> arguments = {"run", file.c_str(), "--systems-paths",
                                          "tests/golden/fixtures/toy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::RunCommand(std::move(arguments), AddRunCommand);
  }
  // One experiment in the flat form.
  std::string Experiment(const std::string& name, const std::string& mode,
                         const std::string& more = "") const {
    return name + ":\n  serving_mode: " + mode +
           (mode == "disagg" ? "\n  prefill_model_path: " + model_.dense() +
                                   "\n  decode_model_path: " + model_.dense() +
                                   "\n  prefill_system_name: toy_sxm\n  decode_system_name: "
                                   "toy_sxm\n"
                             : "\n  model_path: " + model_.dense() + "\n  system_name: toy_sxm\n") +
           "  total_gpus: 4\n  database_mode: SOL\n  ttft: 2000\n  tpot: 30\n" + more;
  }

  testing::SmallModel model_;
};

TEST_F(SearchCommands, SweepTellsTheBestOfEachModeAndWhichIsBest) {
  const Outcome text = Sweep({"--gpus", "4", "--top-n", "2"});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("on 4 x toy_sxm\n"));
  EXPECT_THAT(text.out, HasSubstr("TTFT <= 2000 ms, TPOT <= 30 ms"));
  EXPECT_THAT(text.out, HasSubstr("\nBest: "));
  EXPECT_THAT(text.out, HasSubstr("\nagg\n"));
  EXPECT_THAT(text.out, HasSubstr("\ndisagg\n"));
  EXPECT_THAT(text.out, HasSubstr("Pareto front of "));

  const Outcome as_json = Sweep({"--gpus", "4", "--top-n", "2", "--json"});
  ASSERT_EQ(as_json.exit_code, kExitAnswer);
  const json all = json::parse(as_json.out);
  EXPECT_TRUE(all["meets_target"]);
  ASSERT_EQ(all["experiments"].size(), 2U);
  double best = 0;
  for (const json& experiment : all["experiments"]) {
    ASSERT_FALSE(experiment["best"].empty());
    EXPECT_LE(experiment["best"].size(), 2U);
    double last = INFINITY;
    for (const json& row : experiment["best"]) {
      EXPECT_LE(row["tpot_ms"], 30.0);
      EXPECT_LE(row["ttft_ms"], 2000.0);
      EXPECT_LE(row["tokens_per_s_per_cluster_gpu"], last);
      last = row["tokens_per_s_per_cluster_gpu"];
    }
    best = std::max(best, experiment["best_value"].get<double>());
    EXPECT_FALSE(experiment["front"].empty());
  }
  for (const json& experiment : all["experiments"]) {
    if (experiment["name"] != all["chosen"]) continue;
    EXPECT_EQ(experiment["best_value"], best);
  }
  EXPECT_GT(all["outcomes"][0]["points"]["evaluated"], 0);
}

TEST_F(SearchCommands, RowsAreRankedByRunsUnlessTheFormulaIsAskedFor) {
  const json runs = json::parse(Sweep({"--gpus", "4", "--json"}).out);
  const json formula = json::parse(Sweep({"--gpus", "4", "--score", "formula", "--json"}).out);
  for (const json& experiment : runs["experiments"]) {
    for (const json& row : experiment["best"]) {
      EXPECT_EQ(row["scored_by"], "closed_loop");
      EXPECT_LE(row["closed_loop_ttft_ms"], 2000.0);
      EXPECT_LE(row["closed_loop_tpot_ms"], 30.0);
      EXPECT_GT(row["closed_loop_ttft_p99_ms"], 0.0);
      EXPECT_LE(row["tokens_per_s_per_cluster_gpu"],
                row["closed_loop_tokens_per_s_per_gpu"].get<double>() * (1 + 1e-12));
      EXPECT_GT(row["ttft_ms"], 0.0);  // the formula's, beside it
    }
  }
  for (const json& experiment : formula["experiments"]) {
    for (const json& row : experiment["best"]) EXPECT_FALSE(row.contains("scored_by"));
  }
  const Outcome text = Sweep({"--gpus", "4"});
  EXPECT_THAT(text.out, HasSubstr("ranked by benchmark runs in virtual time"));
  EXPECT_THAT(text.out, HasSubstr("formula"));
  EXPECT_THAT(Sweep({"--gpus", "4", "--score", "formula"}).out, Not(HasSubstr("ranked by")));
  EXPECT_THAT(Sweep({"--gpus", "4", "--behaviour", "reference"}).out, Not(HasSubstr("ranked by")));
  EXPECT_EQ(Sweep({"--gpus", "4", "--score", "best"}).exit_code, kExitInvalidConfig);
  EXPECT_EQ(Sweep({"--gpus", "4", "--score", "closed-loop", "--behaviour", "reference"}).exit_code,
            kExitUsage);
}

TEST_F(SearchCommands, AnEstimateOfAShownRowSaysTheSame) {
  const json runs = json::parse(Sweep({"--gpus", "4", "--json"}).out);
  int compared = 0;
  for (const json& experiment : runs["experiments"]) {
    const json& row = experiment["best"][0];
    const auto number = [&](const char* key) { return std::to_string(row[key].get<int>()); };
    // Sizes of both sweep and estimate: isl 4000, osl 1000.
    std::vector<std::string> words = {"--isl", "4000", "--osl", "1000", "--json"};
    const auto add = [&](const char* flag, const char* key) {
      words.emplace_back(flag);
      words.push_back(number(key));
    };
    if (experiment["mode"] == "agg") {
      add("--tp", "tp_size");
      add("--pp", "pp_size");
      add("--bs", "batch_size");
      add("--ctx-tokens", "ctx_tokens");
    } else {
      words.insert(words.end(), {"--estimate-mode", "disagg"});
      add("--p-tp", "prefill_tp_size");
      add("--p-pp", "prefill_pp_size");
      add("--p-bs", "prefill_batch_size");
      add("--p-workers", "prefill_workers");
      add("--d-tp", "decode_tp_size");
      add("--d-pp", "decode_pp_size");
      add("--d-bs", "decode_batch_size");
      add("--d-workers", "decode_workers");
    }
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    const Outcome estimate = model_.Ask(AddEstimateCommand, "estimate", arguments);
    ASSERT_EQ(estimate.exit_code, kExitAnswer) << estimate.err;
    const json figures = json::parse(estimate.out)["figures"];
    EXPECT_EQ(figures["ttft_ms"], row["closed_loop_ttft_ms"]);
    EXPECT_EQ(figures["tpot_ms"], row["closed_loop_tpot_ms"]);
    EXPECT_EQ(figures["tokens_per_s_per_gpu"], row["closed_loop_tokens_per_s_per_gpu"]);
    EXPECT_EQ(figures["request_latency_ms"], row["closed_loop_request_latency_ms"]);
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

TEST_F(SearchCommands, CsvHoldsTheChosenRows) {
  const Outcome best = Sweep({"--gpus", "4", "--serving-mode", "agg", "--csv"});
  ASSERT_EQ(best.exit_code, kExitAnswer) << best.err;
  EXPECT_THAT(best.out, StartsWith("rank,experiment,model,isl,osl,"));
  EXPECT_THAT(best.out, HasSubstr("\n1,agg,"));
  const Outcome all = Sweep({"--gpus", "4", "--serving-mode", "agg", "--csv", "--rows", "all"});
  EXPECT_GT(std::count(all.out.begin(), all.out.end(), '\n'),
            std::count(best.out.begin(), best.out.end(), '\n'));
  const Outcome wrong = Sweep({"--gpus", "4", "--rows", "bets"});
  EXPECT_EQ(wrong.exit_code, kExitInvalidConfig);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean best"));
}

TEST_F(SearchCommands, TheReferencesSpellingsAreUnderstood) {
  const Outcome outcome =
      model_.Ask(AddSweepCommand, "default",
                 {"--total-gpus", "4", "--strict-sla", "--top-n", "1", "--enable-chunked-prefill",
                  "--decode-system", "toy_sxm", "--no-color", "--debug", "--behaviour", "reference",
                  "--json"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["behaviour"], "reference");
}

TEST_F(SearchCommands, ThreadsChangeNothing) {
  const Outcome one = Sweep({"--gpus", "4", "--json", "--threads", "1"});
  const Outcome many = Sweep({"--gpus", "4", "--json"});
  ASSERT_EQ(one.exit_code, kExitAnswer);
  EXPECT_EQ(one.out, many.out);
}

TEST_F(SearchCommands, WithoutAClusterOneReplicaIsJudged) {
  const Outcome outcome = Sweep({"--serving-mode", "agg"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no --gpus given"));
  const Outcome reference = Sweep({"--behaviour", "reference"});
  EXPECT_EQ(reference.exit_code, kExitUsage);
  EXPECT_THAT(reference.err, HasSubstr("--target-request-rate"));
}

TEST_F(SearchCommands, ATargetForTheLatencyLeavesThatOfTheFirstToken) {
  const Outcome outcome = Sweep({"--gpus", "4", "--request-latency", "9000", "--ttft", "700"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("TTFT <= 700 ms, request latency <= 9000 ms"));
}

TEST_F(SearchCommands, WhatMissesTheTargetIsToldWithTheNearest) {
  const Outcome slow = Sweep({"--gpus", "4", "--tpot", "0.001", "--serving-mode", "agg"});
  EXPECT_EQ(slow.exit_code, kExitNoFeasibleConfig);
  EXPECT_THAT(slow.out + slow.err, HasSubstr("TPOT <= 0.001 ms"));
  EXPECT_THAT(slow.out + slow.err, HasSubstr("ms > 0.001 ms"));
  const Outcome late = Sweep({"--gpus", "4", "--ttft", "0.001", "--serving-mode", "agg"});
  EXPECT_EQ(late.exit_code, kExitNoFeasibleConfig);
  EXPECT_THAT(late.err, HasSubstr("nearest"));
  EXPECT_THAT(late.err, HasSubstr("> 0.001 ms"));
  const Outcome as_json =
      Sweep({"--gpus", "4", "--ttft", "0.001", "--serving-mode", "agg", "--json"});
  EXPECT_EQ(as_json.exit_code, kExitNoFeasibleConfig);
  EXPECT_EQ(json::parse(as_json.out)["error"]["kind"], "no_feasible_config");
}

TEST_F(SearchCommands, WrongRequestsAreNamed) {
  const struct {
    std::vector<const char*> arguments;
    int exit_code;
    const char* says;
  } cases[] = {
      {{"--gpus", "0"}, kExitInvalidConfig, "--gpus is 0"},
      {{"--gpus", "four"}, kExitUsage, "four"},
      {{"--gpus", "4", "--tpot", "-1"}, kExitInvalidConfig, "--tpot is -1"},
      {{"--gpus", "4", "--ttft", "nan"}, kExitInvalidConfig, "--ttft is nan"},
      {{"--gpus", "4", "--serving-mode", "disag"}, kExitInvalidConfig, "did you mean disagg"},
      {{"--gpus", "4", "--backend", "trtlm"}, kExitInvalidConfig, "did you mean trtllm"},
      {{"--gpus", "4", "--tptt", "3"}, kExitUsage, "unknown option --tptt (did you mean"},
      {{"--gpus", "4", "--target-request-rate", "3"}, kExitUsage, "give one of them"},
      {{"--target-concurrency", "4", "--target-request-rate", "3"}, kExitUsage, "excludes"},
      {{"--gpus", "4", "--encoder-tp", "2"}, kExitUsage, "add --encoder-pool"},
      {{"--gpus", "4", "--nextn", "two"}, kExitInvalidConfig, "--nextn is 'two'"},
      {{"--gpus", "4", "--nextn", "2"}, kExitInvalidConfig, "--nextn-accepted"},
      {{"--gpus", "4", "--forward-model", "opl"}, kExitInvalidConfig, "op_level"},
      {{"--gpus", "4", "--system", "toy_sx"}, kExitUsage, "--system"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = Sweep(c.arguments);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << c.says << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.says));
  }
}

TEST_F(SearchCommands, RecommendCountsTheGpusOfALoad) {
  const Outcome text = Recommend({"--target-request-rate", "40"});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("for 40 requests/s"));
  const Outcome small = Recommend({"--target-request-rate", "40", "--json"});
  const Outcome large = Recommend({"--target-request-rate", "400", "--json"});
  const auto needed = [](const Outcome& outcome) {
    const json all = json::parse(outcome.out);
    std::int64_t fewest = 1'000'000;
    for (const json& e : all["experiments"]) {
      const json& row = e["best"][0];
      EXPECT_GE(
          row["closed_loop_requests_per_s"].get<double>() * row["replicas_needed"].get<double>(),
          all["load"]["request_rate"].get<double>());
      fewest = std::min<std::int64_t>(fewest, row["total_gpus_needed"]);
    }
    return fewest;
  };
  EXPECT_LT(needed(small), needed(large));
  // sweep with a load asks the same.
  const Outcome routed = Sweep({"--target-request-rate", "40", "--json"});
  EXPECT_EQ(needed(routed), needed(small));
}

TEST_F(SearchCommands, RecommendNeedsExactlyOneLoad) {
  EXPECT_EQ(Recommend({}).exit_code, kExitUsage);
  EXPECT_THAT(Recommend({}).err, HasSubstr("--target-concurrency"));
  EXPECT_EQ(Recommend({"--target-request-rate", "1", "--target-concurrency", "1"}).exit_code,
            kExitUsage);
  EXPECT_EQ(Recommend({"--target-request-rate", "0"}).exit_code, kExitInvalidConfig);
  EXPECT_EQ(Recommend({"--target-concurrency", "8", "--max-gpus", "0"}).exit_code,
            kExitInvalidConfig);
  EXPECT_EQ(Recommend({"--gpus", "4", "--target-concurrency", "8"}).exit_code, kExitUsage);
}

TEST_F(SearchCommands, SavedFilesHoldWhatWasPrinted) {
  const std::string folder = model_.path("saved");
  const Outcome outcome =
      Sweep({"--gpus", "4", "--serving-mode", "agg", "--csv", "--save-dir", folder.c_str()});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_EQ(testing::ReadText(folder + "/agg/best_config_topn.csv"), outcome.out);
  EXPECT_THAT(testing::ReadText(folder + "/agg/exp_config.yaml"), HasSubstr("total_gpus: 4"));
  EXPECT_TRUE(json::parse(testing::ReadText(folder + "/results.json"))["meets_target"]);
  EXPECT_TRUE(std::filesystem::exists(folder + "/agg/pareto.csv"));
  // A folder that cannot be made.
  testing::WriteText(model_.path("file"), "");
  const std::string below = model_.path("file") + "/below";
  EXPECT_EQ(Sweep({"--gpus", "4", "--save-dir", below.c_str()}).exit_code, kExitIo);
}

TEST_F(SearchCommands, RunTakesExperimentsFromAFile) {
  const Outcome outcome =
      RunFile(Experiment("first", "agg") + Experiment("second", "disagg"), {"--json"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  const json all = json::parse(outcome.out);
  ASSERT_EQ(all["experiments"].size(), 2U);
  EXPECT_EQ(all["experiments"][0]["name"], "first");
  EXPECT_EQ(all["experiments"][1]["name"], "second");
  const Outcome text = RunFile(Experiment("first", "agg"));
  EXPECT_THAT(text.out, HasSubstr("Best: first"));
}

TEST_F(SearchCommands, RunReadsTheOlderFormToo) {
  const std::string nested =
      "old:\n  mode: patch\n  serving_mode: agg\n  model_path: " + model_.dense() +
      "\n  system_name: toy_sxm\n  total_gpus: 4\n  database_mode: SOL\n"
      "  ttft: 2000\n  tpot: 30\n"
      "  config:\n    worker_config:\n      num_gpu_per_worker: [2]\n"
      "      tp_list: [2]\n";
  const Outcome outcome = RunFile(nested, {"--json"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  for (const json& row : json::parse(outcome.out)["experiments"][0]["best"]) {
    EXPECT_EQ(row["tp_size"], 2);
  }
}

TEST_F(SearchCommands, RunNamesWhatIsWrongInAFile) {
  const Outcome unknown = RunFile(Experiment("first", "agg", "  tppt: 3\n"));
  EXPECT_NE(unknown.exit_code, kExitAnswer);
  EXPECT_THAT(unknown.err, HasSubstr("tppt"));
  const Outcome malformed = RunFile("first:\n  a: [1, 2\nsecond: }\n");
  EXPECT_EQ(malformed.exit_code, kExitInvalidConfig);
  EXPECT_THAT(malformed.err, HasSubstr("line 3"));
  const Outcome list = RunFile("- 1\n- 2\n");
  EXPECT_EQ(list.exit_code, kExitInvalidConfig);
  const Outcome none = testing::RunCommand({"run", "/nonexistent/file.yaml"}, AddRunCommand);
  EXPECT_EQ(none.exit_code, kExitIo);
  EXPECT_EQ(testing::RunCommand({"run"}, AddRunCommand).exit_code, kExitUsage);
  // One broken experiment does not stop the other.
  const Outcome half =
      RunFile(Experiment("broken", "agg", "  tppt: 3\n") + Experiment("sound", "agg"));
  EXPECT_EQ(half.exit_code, kExitAnswer);
  EXPECT_THAT(half.err, HasSubstr("experiment broken is left out"));
}

}  // namespace
}  // namespace infercast
