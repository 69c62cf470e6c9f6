// estimate's benchmark run in virtual time: when it is shown, and what its options do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cli/estimate_command.h"
#include "cli/run_command.h"
#include "cli/small_model.h"

namespace infercast {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;

class Load : public ::testing::Test {
 protected:
  Outcome Ask(const std::vector<const char*>& more) const {
    return model_.Ask(AddEstimateCommand, "estimate", more, false);
  }
  json Serving(std::vector<const char*> more) const {
    more.insert(more.begin(), {"--tp", "2", "--bs", "16", "--json"});
    const Outcome outcome = Ask(more);
    if (outcome.exit_code != kExitAnswer) throw std::runtime_error(outcome.err);
    const json all = json::parse(outcome.out);
    return all.contains("serving") ? all["serving"] : json();
  }
  testing::SmallModel model_;
};

TEST_F(Load, RunsWithTheBatchByDefaultInNativeBehaviourOnly) {
  const json run = Serving({});
  EXPECT_EQ(run["concurrency"], 16);
  EXPECT_EQ(run["requests"], 160);
  for (const char* key : {"mean", "median", "p90", "p99"}) {
    EXPECT_GT(run["ttft_ms"][key], 0.0) << key;
    EXPECT_GT(run["tpot_ms"][key], 0.0) << key;
  }
  double parts = 0;
  for (const auto& [name, value] : run["ttft_parts_ms"].items()) parts += value.get<double>();
  EXPECT_NEAR(parts, run["ttft_ms"]["mean"].get<double>(), 1e-6);
  EXPECT_LT(run["ttft_interval_ms"][0], run["ttft_ms"]["mean"]);
  EXPECT_GT(run["ttft_interval_ms"][1], run["ttft_ms"]["mean"]);
  EXPECT_TRUE(Serving({"--behaviour", "reference"}).is_null());
  EXPECT_THAT(Ask({"--tp", "2", "--bs", "16"}).out,
              HasSubstr("as a benchmark with 16 requests in flight would see it"));
  EXPECT_THAT(Ask({"--tp", "2", "--bs", "16", "--behaviour", "reference"}).out,
              Not(HasSubstr("as a benchmark")));
}

TEST_F(Load, TheRunIsTheAnswerAndTheFormulaStandsBeside) {
  const auto ask = [&](std::vector<const char*> more) {
    more.insert(more.begin(), {"--tp", "2", "--bs", "16", "--json"});
    const Outcome outcome = Ask(more);
    if (outcome.exit_code != kExitAnswer) throw std::runtime_error(outcome.err);
    return json::parse(outcome.out);
  };
  const json native = ask({}), reference = ask({"--behaviour", "reference"});
  EXPECT_EQ(native["scored_by"], "closed_loop");
  const json& run = native["serving"];
  EXPECT_EQ(native["figures"]["ttft_ms"], run["ttft_ms"]["mean"]);
  EXPECT_EQ(native["figures"]["tpot_ms"], run["tpot_ms"]["mean"]);
  // Requests of the run are shorter than those asked about; figures are those of full length.
  EXPECT_GT(native["figures"]["request_latency_ms"], run["request_latency_ms"]);
  EXPECT_LT(native["figures"]["requests_per_s"], run["requests_per_s"]);
  EXPECT_NEAR(native["figures"]["requests_per_s"].get<double>() * 1024,
              run["output_tokens_per_s"].get<double>(), 1e-6);
  EXPECT_EQ(native["figures"]["tokens_per_s"], run["output_tokens_per_s"]);
  EXPECT_EQ(native["figures"]["tokens_per_s_per_gpu"].get<double>() * 2,
            run["output_tokens_per_s"].get<double>());
  // The formula is that of the reference, but for the first token of a request in its throughput
  // and the logits of the decodes beside a prefill.
  for (const char* figure : {"ttft_ms", "tpot_ms"}) {
    const double ours = native["formula"][figure], theirs = reference["figures"][figure];
    EXPECT_GT(ours, theirs) << figure;
    EXPECT_LT(ours, theirs * 1.0002) << figure;
  }
  const json native_step = ask({"--detail"})["operators"]["mix_step"];
  const json reference_step =
      ask({"--detail", "--behaviour", "reference"})["operators"]["mix_step"];
  ASSERT_EQ(native_step.size(), reference_step.size());
  const auto named = [](const json& operators, std::string name) {
    for (const json& op : operators) {
      if (op["name"] == name || op["name"] == name + " (scaled)") return op;
    }
    return json();
  };
  for (const json& op : native_step) {
    const json other = named(reference_step, op["name"]);
    ASSERT_TRUE(other.is_object()) << op["name"];
    if (op["name"] == "context_logits_gemm") {
      EXPECT_GT(op["latency_ms"], other["latency_ms"]);
    } else {
      EXPECT_EQ(op["latency_ms"], other["latency_ms"]) << op["name"];
    }
  }
  EXPECT_NE(native["figures"]["ttft_ms"], native["formula"]["ttft_ms"]);
  EXPECT_EQ(reference["scored_by"], "formula");
  EXPECT_EQ(reference["figures"], reference["formula"]);
  // In reference behaviour a run that was asked for stands beside the formula.
  const json asked = ask({"--behaviour", "reference", "--concurrency", "4"});
  EXPECT_EQ(asked["scored_by"], "formula");
  EXPECT_EQ(asked["serving"]["concurrency"], 4);
  // At a rate, as many are in flight as rate and latency say.
  const json open = ask({"--rate", "2", "--num-requests", "50"});
  EXPECT_NEAR(open["figures"]["concurrency"].get<double>(),
              open["serving"]["requests_per_s"].get<double>() *
                  open["serving"]["request_latency_ms"].get<double>() / 1000,
              1e-9);
  const Outcome text = Ask({"--tp", "2", "--bs", "16"});
  EXPECT_THAT(text.out, HasSubstr("closed loop      formula"));
}

TEST_F(Load, ModesWithoutARunKeepTheFormulaAndSaySo) {
  const Outcome fixed = Ask({"--tp", "2", "--bs", "16", "--estimate-mode", "static", "--json"});
  const json all = json::parse(fixed.out);
  EXPECT_EQ(all["scored_by"], "formula");
  EXPECT_EQ(all["figures"], all["formula"]);
  EXPECT_THAT(all["notes"].dump(), HasSubstr("scored by the formula"));
}

TEST_F(Load, PrefillTokensAndPrefillBatchAreThoseOfTheRun) {
  EXPECT_EQ(Serving({"--ctx-tokens", "3000"})["policy"]["token_budget"], 3016);
  EXPECT_EQ(Serving({"--ctx-tokens", "3000", "--backend", "sglang"})["policy"]["token_budget"],
            3000);
  const auto pools = [&](const char* batch) {
    const Outcome outcome =
        Ask({"--estimate-mode", "disagg", "--tp", "1", "--d-bs", "16", "--p-workers", "1",
             "--d-workers", "1", "--p-bs", batch, "--json"});
    return json::parse(outcome.out)["serving"]["ttft_ms"]["mean"].get<double>();
  };
  EXPECT_NE(pools("1"), pools("4"));
}

TEST_F(Load, TheSpeedOfLightIsFreeOfFittedConstants) {
  // All of these tests run at the speed of light.
  EXPECT_EQ(Serving({})["corrections"]["context_scale"], 1.0);
  EXPECT_EQ(Serving({})["corrections"]["first_token_steps"], 0.0);
}

TEST_F(Load, ConcurrencyAndRateSayWhatIsSent) {
  const json few = Serving({"--concurrency", "2"}), many = Serving({"--concurrency", "64"});
  EXPECT_EQ(few["requests"], 20);
  EXPECT_LT(few["ttft_ms"]["mean"], many["ttft_ms"]["mean"]);
  const json open = Serving({"--rate", "0.01", "--num-requests", "30", "--no-corrections"});
  EXPECT_EQ(open["rate"], 0.01);
  EXPECT_EQ(open["requests"], 30);
  EXPECT_EQ(open["corrections"]["context_scale"], 1.0);
  EXPECT_EQ(Ask({"--tp", "2", "--rate", "0.01", "--num-requests", "30"}).err, "");
  EXPECT_THAT(Ask({"--tp", "2", "--rate", "0.01", "--num-requests", "30"}).out,
              HasSubstr("  run      formula"));
  const auto says = [&](std::vector<const char*> more) {
    more.insert(more.begin(), {"--tp", "2"});
    const Outcome outcome = Ask(more);
    EXPECT_NE(outcome.exit_code, kExitAnswer);
    return outcome.err;
  };
  EXPECT_THAT(says({"--rate", "1", "--concurrency", "2"}), HasSubstr("not both"));
  EXPECT_THAT(says({"--rate", "-1"}), HasSubstr("request rate is -1"));
  // What is out of range is told before what stands for nothing.
  EXPECT_THAT(says({"--rate", "0"}), HasSubstr("request rate is 0"));
  EXPECT_THAT(says({"--concurrency", "0"}), HasSubstr("concurrency is 0"));
  EXPECT_THAT(says({"--num-requests", "0"}), HasSubstr("number of requests is 0"));
  EXPECT_THAT(says({"--seed", "-3"}), HasSubstr("expected 0 or more, got -3"));
  EXPECT_EQ(Ask({"--tp", "2", "--estimate-mode", "static", "--seed", "4"}).exit_code, kExitUsage);
  EXPECT_EQ(Ask({"--tp", "2", "--estimate-mode", "static", "--rate", "1"}).exit_code, kExitUsage);
}

TEST_F(Load, ArrivalsBeyondTheCapacityAreTold) {
  const auto note = HasSubstr("cannot keep up with 2000 requests/s");
  const Outcome many = Ask(
      {"--tp", "2", "--rate", "2000", "--num-requests", "2000", "--json", "--max-num-seqs", "4"});
  EXPECT_THAT(json::parse(many.out)["notes"].dump(), note);
  const Outcome few = Ask({"--tp", "2", "--rate", "2000", "--num-requests", "10", "--json"});
  EXPECT_THAT(json::parse(few.out)["notes"].dump(), Not(note));
}

// As in JSON: columns of the run are there wherever there is one, whatever answers.
TEST_F(Load, TablesHaveTheRun) {
  const auto cells = [&](std::vector<const char*> more) {
    more.insert(more.begin(), {"--tp", "2", "--bs", "16", "--csv"});
    const std::string text = Ask(more).out;
    std::map<std::string, std::string> row;
    std::istringstream lines(text);
    std::string names, values;
    std::getline(lines, names);
    std::getline(lines, values);
    std::istringstream name(names), value(values);
    for (std::string n, v; std::getline(name, n, ',') && std::getline(value, v, ',');) row[n] = v;
    return row;
  };
  const auto own = cells({});
  EXPECT_EQ(own.at("scored_by"), "closed_loop");
  EXPECT_EQ(own.at("closed_loop_concurrency"), "16");
  const auto few = cells({"--concurrency", "4"});
  EXPECT_EQ(few.at("concurrency"), "16");
  EXPECT_EQ(few.at("closed_loop_concurrency"), "4");
  EXPECT_EQ(few.at("closed_loop_rate"), "");
  const auto open = cells({"--rate", "2.5", "--num-requests", "50"});
  EXPECT_EQ(open.at("closed_loop_concurrency"), "");
  EXPECT_EQ(open.at("closed_loop_rate"), "2.5");
  const auto beside = cells({"--concurrency", "4", "--score", "formula"});
  EXPECT_EQ(beside.at("scored_by"), "formula");
  EXPECT_EQ(beside.at("closed_loop_concurrency"), "4");
  EXPECT_EQ(beside.at("closed_loop_ttft"), few.at("closed_loop_ttft"));
  EXPECT_FALSE(cells({"--score", "formula"}).contains("closed_loop_ttft"));
}

TEST_F(Load, FlagsOfTheSchedulerAndCorrectionsTakeEffect) {
  for (const char* text : {"context_scale", "context_scale=+2", "=2"}) {
    EXPECT_THAT(Ask({"--tp", "2", "--correction", text}).err,
                HasSubstr(std::string("expected name=value, got '") + text + "'"));
  }
  const json plain = Serving({}), same = Serving({"--seed", "1"});
  EXPECT_EQ(plain["ttft_ms"], same["ttft_ms"]);
  EXPECT_NE(plain["ttft_ms"], Serving({"--seed", "2"})["ttft_ms"]);
  EXPECT_GT(Serving({"--max-num-seqs", "4"})["ttft_ms"]["mean"], plain["ttft_ms"]["mean"]);
  EXPECT_EQ(Serving({"--poll-interval", "5"})["policy"]["poll_interval"], 5);
  const double mean = plain["ttft_ms"]["mean"];
  const json later = Serving({"--correction", "first_token_ms=100"});
  EXPECT_NEAR(later["ttft_ms"]["mean"].get<double>(), mean + 100, 1e-6 * mean);
}

}  // namespace
}  // namespace infercast
