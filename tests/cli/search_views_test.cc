// What sweep and recommend show beside their tables: plots, costs, comparisons, mixes, saved runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/experiments_command.h"
#include "cli/recommend_command.h"
#include "cli/small_model.h"
#include "cli/support_command.h"
#include "cli/sweep_command.h"

namespace infercast {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;

std::string Read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class SearchViews : public ::testing::Test {
 protected:
  Outcome Sweep(const std::vector<const char*>& more) const {
    return model_.Ask(AddSweepCommand, "sweep", more);
  }
  testing::SmallModel model_;
};

TEST_F(SearchViews, WritesThePageAndThePictureOfAllPoints) {
  const std::string page = model_.path("page.html"), picture = model_.path("plot.svg");
  const Outcome outcome =
      Sweep({"--gpus", "4", "--html", page.c_str(), "--svg", picture.c_str(), "--plot"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tokens/s per user"));
  EXPECT_THAT(Read(picture), HasSubstr("class=\"picked\""));
  const std::string html = Read(page);
  const std::string open = "id=\"data\">";
  const std::size_t from = html.find(open) + open.size();
  const json data = json::parse(html.substr(from, html.find("</script>", from) - from));
  EXPECT_GT(data["points"]["user"].size(), 10U);
  std::size_t picked = 0, explained = 0;
  for (std::size_t i = 0; i < data["points"]["user"].size(); ++i) {
    picked += data["points"]["picked"][i].get<std::size_t>();
    explained += data["points"]["phases"][i].empty() ? 0 : 1;
  }
  EXPECT_GT(picked, 1U);
  EXPECT_GE(explained, picked);
  // With --json there is nothing on standard output but JSON.
  EXPECT_TRUE(json::accept(Sweep({"--gpus", "4", "--plot", "--json"}).out));
}

TEST_F(SearchViews, PricesGiveCosts) {
  const Outcome outcome = Sweep({"--gpus", "4", "--gpu-hour-price", "2.5"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("per million output tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("per request"));
  EXPECT_THAT(outcome.out, HasSubstr("energy: unknown"));  // rooflines have no power
  const Outcome bad = Sweep({"--gpus", "4", "--gpu-hour-price", "cheap"});
  EXPECT_EQ(bad.exit_code, kExitInvalidConfig);
  EXPECT_THAT(bad.err, HasSubstr("'cheap'"));
  const Outcome missing = Sweep({"--gpus", "4", "--price-file", "/nonexistent.yaml"});
  EXPECT_EQ(missing.exit_code, kExitIo);
}

TEST_F(SearchViews, ComparesBackendsSideBySide) {
  const Outcome outcome = Sweep({"--gpus", "4", "--backend", "auto", "--gpu-hour-price", "2"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  for (const char* backend : {"trtllm", "vllm", "sglang"}) {
    EXPECT_THAT(outcome.out, HasSubstr(backend));
  }
  EXPECT_THAT(outcome.out, HasSubstr("cheapest"));
}

TEST_F(SearchViews, FindsOneDeploymentForAMix) {
  const std::vector<const char*> mix = {"--gpus", "4",      "--workload", "chat=3,rag", "--ttft",
                                        "20000",  "--tpot", "100",        "--top-n",    "2"};
  const Outcome text = Sweep(mix);
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("75.0 % of requests"));
  EXPECT_THAT(text.out, HasSubstr("ranked by benchmark runs in virtual time"));
  for (const std::string by : {"closed_loop", "formula"}) {
    const std::string of_runs = by == "closed_loop" ? "closed_loop_" : "";
    std::vector<const char*> as_json = mix;
    as_json.insert(as_json.end(),
                   {"--json", "--score", by == "formula" ? "formula" : "closed-loop"});
    const json all = json::parse(Sweep(as_json).out);
    EXPECT_EQ(all["scored_by"], by);
    ASSERT_FALSE(all["best"].empty());
    double last = INFINITY;
    for (const json& best : all["best"]) {
      // The mix is served as fast as its parts take turns.
      const double chat = best["workloads"][0][of_runs + "requests_per_s_alone"];
      const double rag = best["workloads"][1][of_runs + "requests_per_s_alone"];
      const double replicas = best["replicas"];
      EXPECT_NEAR(best["mix_requests_per_s"].get<double>(), replicas / (0.75 / chat + 0.25 / rag),
                  1e-9);
      EXPECT_LE(best["mix_requests_per_s_per_cluster_gpu"].get<double>(), last);
      last = best["mix_requests_per_s_per_cluster_gpu"];
      for (const json& workload : best["workloads"]) {
        EXPECT_LE(workload[of_runs + "ttft_ms"].get<double>(), 20000);
        EXPECT_LE(workload[of_runs + "tpot_ms"].get<double>(), 100);
      }
    }
  }
  std::vector<const char*> as_csv = mix;
  as_csv.push_back("--csv");
  EXPECT_THAT(Sweep(as_csv).out, HasSubstr("closed_loop_ttft_p99"));
  const Outcome impossible = Sweep({"--gpus", "4", "--workload", "chat,rag", "--ttft", "0.001"});
  EXPECT_EQ(impossible.exit_code, kExitNoFeasibleConfig);
  EXPECT_EQ(Sweep({"--workload", "chat"}).exit_code, kExitUsage);
  EXPECT_EQ(Sweep({"--gpus", "4", "--workload", "chatt"}).exit_code, kExitInvalidConfig);
}

TEST_F(SearchViews, TellsWhatAMixDoesNotHeed) {
  const auto mix = [&](std::vector<const char*> more) {
    std::vector<const char*> all = {"--gpus", "4", "--workload", "chat"};
    all.insert(all.end(), more.begin(), more.end());
    return Sweep(all);
  };
  const std::vector<std::vector<const char*>> unheeded = {
      {"--isl", "3000"},       {"--osl", "300"},          {"--prefix", "0"},
      {"--num-images", "1"},   {"--image-height", "224"}, {"--image-width", "224"},
      {"--rows", "best"},      {"--inclusive-tpot"},      {"--request-latency", "9000"},
      {"--svg", "/no/a.svg"},  {"--html", "/no/a.html"},  {"--plot"},
      {"--save-dir", "/no/a"},
  };
  for (const std::vector<const char*>& option : unheeded) {
    const Outcome refused = mix(option);
    EXPECT_EQ(refused.exit_code, kExitUsage) << option[0];
    EXPECT_THAT(refused.err, HasSubstr(std::string("without ") + option[0]));
  }
  const Outcome several = mix({"--osl", "300", "--plot", "--isl", "3000"});
  EXPECT_EQ(several.exit_code, kExitUsage);
  EXPECT_THAT(several.err, HasSubstr("--isl, --osl (give isl"));
  EXPECT_THAT(several.err, HasSubstr("; --plot ("));

  const Outcome afd = mix({"--mode", "afd"});
  EXPECT_EQ(afd.exit_code, kExitUsage);
  EXPECT_THAT(afd.err, HasSubstr("--mode auto"));
  const Outcome every =
      mix({"--mode", "all", "--ttft", "20000", "--tpot", "100", "--score", "formula"});
  EXPECT_EQ(every.exit_code, kExitAnswer) << every.err;
  EXPECT_THAT(every.err, HasSubstr("note: a mix of workloads is not searched with attention/FFN"));
}

TEST_F(SearchViews, RefusesToShowNothing) {
  for (const auto& args : std::vector<std::vector<const char*>>{
           {"--gpus", "4", "--top-n", "0"},
           {"--gpus", "4", "--top-n", "0", "--workload", "chat"}}) {
    const Outcome refused = Sweep(args);
    EXPECT_EQ(refused.exit_code, kExitUsage);
    EXPECT_THAT(refused.err, HasSubstr("--top-n is 0"));
  }
}

TEST_F(SearchViews, SavedRunRepeatsExactly) {
  const std::string first = model_.path("first"), second = model_.path("second");
  const Outcome sweep = Sweep({"--gpus", "4", "--top-n", "3", "--save-dir", first.c_str()});
  ASSERT_EQ(sweep.exit_code, kExitAnswer) << sweep.err;
  for (const char* name : {"results.json", "results.parquet", "pareto_frontier.svg",
                           "pareto_frontier.html", "agg/pareto.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(first) / name)) << name;
  }
  const std::string file = first + "/run.yaml";
  const Outcome run =
      testing::RunCommand({"run", file.c_str(), "--top-n", "3", "--save-dir", second.c_str(),
                           "--systems-paths", "tests/golden/fixtures/toy"},
                          AddRunCommand);
  ASSERT_EQ(run.exit_code, kExitAnswer) << run.err;
  for (const std::string mode : {"agg", "disagg"}) {
    for (const char* table : {"/best_config_topn.csv", "/pareto.csv"}) {
      const std::string text = Read(first + "/" + mode + table);
      EXPECT_GT(text.size(), 500U);
      EXPECT_EQ(text, Read(second + "/" + mode + table)) << mode << table;
    }
  }
}

TEST_F(SearchViews, SavedLoadSearchIsSizedAgain) {
  const std::string first = model_.path("first"), second = model_.path("second");
  const std::vector<const char*> load = {"--target-request-rate",
                                         "7.3",
                                         "--max-gpus",
                                         "24",
                                         "--top-n",
                                         "3",
                                         "--isl",
                                         "3000",
                                         "--ttft",
                                         "3000",
                                         "--tpot",
                                         "60"};
  const auto recommend = [&](std::vector<const char*> more) {
    more.insert(more.begin(), load.begin(), load.end());
    return model_.Ask(AddRecommendCommand, "recommend", more);
  };
  const std::string file = first + "/run.yaml";
  const auto run = [&](std::vector<const char*> more) {
    more.insert(more.begin(),
                {"run", file.c_str(), "--systems-paths", "tests/golden/fixtures/toy"});
    return testing::RunCommand(more, AddRunCommand);
  };
  const Outcome text = recommend({"--save-dir", first.c_str()});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(Read(file), HasSubstr("request_rate: 7.3\n  max_gpus: 24\n"));
  const Outcome again = run({"--save-dir", second.c_str()});
  ASSERT_EQ(again.exit_code, kExitAnswer) << again.err;
  EXPECT_EQ(again.out, text.out);
  EXPECT_THAT(text.out, HasSubstr("for 7.3 requests/s"));
  EXPECT_EQ(run({"--json"}).out, recommend({"--json"}).out);
  EXPECT_EQ(run({"--csv", "--rows", "all"}).out, recommend({"--csv", "--rows", "all"}).out);
  for (const char* name : {"results.json", "results.parquet", "run.yaml"}) {
    EXPECT_EQ(Read(std::filesystem::path(second) / name), Read(std::filesystem::path(first) / name))
        << name;
  }
  // What the command line says wins.
  EXPECT_NE(run({"--top-n", "1"}).out, text.out);
}

TEST_F(SearchViews, SupportNamesALayoutOrWhatIsMissing) {
  const std::string model = model_.dense();
  const Outcome none =
      testing::RunCommand({"support", "--model", model.c_str(), "--system", "toy_sxm",
                           "--systems-paths", "tests/golden/fixtures/toy", "--json"},
                          AddSupportCommand);
  const json all = json::parse(none.out);
  ASSERT_EQ(all["answers"].size(), 3U);
  for (const json& answer : all["answers"]) {
    for (const char* mode : {"agg", "disagg"}) {
      const bool answered = answer[mode]["support"] != "no";
      EXPECT_EQ(answered, !answer[mode]["layout"].is_null());
      EXPECT_EQ(answer[mode]["support"] == "measured", answer[mode]["missing"].is_null());
    }
  }
  const Outcome typo =
      testing::RunCommand({"support", "--model", model.c_str(), "--system", "toy_smx",
                           "--systems-paths", "tests/golden/fixtures/toy"},
                          AddSupportCommand);
  EXPECT_EQ(typo.exit_code, kExitInvalidConfig);
  EXPECT_THAT(typo.err, HasSubstr("toy_sxm"));
}

}  // namespace
}  // namespace infercast
