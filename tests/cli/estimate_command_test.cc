// estimate in all its modes, what it fills in, and what it says of wrong requests.
#include "cli/estimate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/run_command.h"
#include "cli/small_model.h"

namespace infercast {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;

class EstimateCommandTest : public ::testing::Test {
 protected:
  Outcome Ask(const std::vector<const char*>& more, bool moe = false) const {
    return model_.Ask(AddEstimateCommand, "estimate", more, moe);
  }
  json Json(std::vector<const char*> more, bool moe = false) const {
    more.push_back("--json");
    const Outcome outcome = Ask(more, moe);
    if (outcome.exit_code != kExitAnswer) throw std::runtime_error(outcome.err);
    return json::parse(outcome.out);
  }

  testing::SmallModel model_;
};

TEST_F(EstimateCommandTest, AggregatedFiguresComeInEveryForm) {
  const json all = Json({"--tp", "2", "--bs", "16"});
  EXPECT_EQ(all["mode"], "agg");
  EXPECT_EQ(all["layout"]["tp_size"], 2);
  EXPECT_EQ(all["batch_size"], 16);
  EXPECT_GT(all["figures"]["tokens_per_s"], 0.0);
  EXPECT_TRUE(all["fits"]);
  EXPECT_FALSE(all.contains("operators"));
  const Outcome text = Ask({"--tp", "2", "--bs", "16"});
  EXPECT_THAT(text.out, HasSubstr("time to first token"));
  EXPECT_THAT(text.out, HasSubstr("memory per GPU (GiB)"));
  const Outcome csv = Ask({"--tp", "2", "--bs", "16", "--csv"});
  EXPECT_THAT(csv.out, HasSubstr("tokens/s/gpu,"));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
}

TEST_F(EstimateCommandTest, StaticModesShowTheirPhases) {
  const json both = Json({"--estimate-mode", "static", "--tp", "1", "--bs", "4"});
  const json prefill = Json({"--estimate-mode", "static_ctx", "--tp", "1", "--bs", "4"});
  const json decode = Json({"--estimate-mode", "static_gen", "--tp", "1", "--bs", "4"});
  EXPECT_EQ(both["figures"]["context_latency_ms"], prefill["figures"]["context_latency_ms"]);
  EXPECT_EQ(both["figures"]["generation_latency_ms"], decode["figures"]["generation_latency_ms"]);
  EXPECT_EQ(prefill["figures"]["generation_latency_ms"], 0.0);
  EXPECT_THAT(Ask({"--estimate-mode", "static", "--tp", "1", "--csv"}).out,
              HasSubstr("context_latency,generation_latency,"));
}

TEST_F(EstimateCommandTest, PoolsOfADisaggregatedDeploymentHaveTheirOwnSizes) {
  const json all = Json({"--estimate-mode", "disagg", "--prefill-tp-size", "1", "--p-bs", "1",
                         "--p-workers", "3", "--decode-tp-size", "2", "--decode-batch-size", "32",
                         "--decode-num-workers", "1"});
  EXPECT_EQ(all["prefill"]["workers"], 3);
  EXPECT_EQ(all["decode"]["layout"]["tp_size"], 2);
  EXPECT_EQ(all["figures"]["num_total_gpus"], 5);
  EXPECT_TRUE(all["notes"].empty());
  // What is left open is filled in and told; in reference behaviour it must be given.
  const json open = Json({"--estimate-mode", "disagg", "--tp", "2"});
  EXPECT_EQ(open["prefill"]["batch_size"], 1);
  EXPECT_EQ(open["decode"]["workers"], 1);
  EXPECT_EQ(open["notes"].size(), 4U);
  const Outcome reference =
      Ask({"--estimate-mode", "disagg", "--tp", "2", "--behaviour", "reference"});
  EXPECT_EQ(reference.exit_code, kExitInvalidConfig);
  EXPECT_THAT(reference.err, HasSubstr("disagg"));
}

TEST_F(EstimateCommandTest, AttentionAndFeedForwardNodesMakeAnAfdDeployment) {
  const json all = Json(
      {"--estimate-mode", "afd", "--n-a-nodes", "1", "--n-f-nodes", "1", "--a-batch-size", "32"},
      /*moe=*/true);
  EXPECT_EQ(all["topology"]["attention_nodes"], 1);
  EXPECT_GT(all["decode_phase"]["step_ms"], 0.0);
  const Outcome text = model_.Ask(
      AddEstimateCommand, "estimate",
      {"--estimate-mode", "afd", "--n-a-nodes", "1", "--n-f-nodes", "1", "--a-batch-size", "32"},
      true);
  EXPECT_THAT(text.out, HasSubstr("decode by layer (ms)"));
  EXPECT_EQ(Ask({"--estimate-mode", "afd"}).exit_code, kExitInvalidConfig);
}

TEST_F(EstimateCommandTest, AnOpenExpertWidthIsFilledAndTold) {
  const json all = Json({"--tp", "4", "--bs", "8"}, /*moe=*/true);
  EXPECT_EQ(all["layout"]["moe_ep_size"], 4);
  EXPECT_EQ(all["layout"]["moe_tp_size"], 1);
  EXPECT_THAT(all["notes"][0], HasSubstr("no expert width given"));
  const json given = Json({"--tp", "4", "--etp", "4", "--bs", "8"}, /*moe=*/true);
  EXPECT_EQ(given["layout"]["moe_ep_size"], 1);
  EXPECT_TRUE(given["notes"].empty());
  // 16 experts on 32 ranks: no rank can hold whole ones.
  const json split = Json({"--tp", "4", "--dp", "8", "--bs", "8", "--backend", "sglang"}, true);
  EXPECT_EQ(split["layout"]["moe_tp_size"], 32);
  const Outcome reference = Ask({"--tp", "4", "--behaviour", "reference"}, /*moe=*/true);
  EXPECT_EQ(reference.exit_code, kExitInvalidConfig);
}

TEST_F(EstimateCommandTest, WithoutParallelismTheSmallestFittingWorkerIsTaken) {
  const json all = Json({"--bs", "8"});
  EXPECT_EQ(all["layout"]["tp_size"], 1);
  EXPECT_THAT(all["notes"][0], HasSubstr("no parallelism given"));
}

TEST_F(EstimateCommandTest, DetailListsOperatorsWithWhatBoundsThem) {
  const json all = Json({"--tp", "2", "--bs", "8", "--detail"});
  ASSERT_TRUE(all["operators"].contains("mix_step"));
  double sum = 0;
  for (const json& op : all["operators"]["mix_step"]) {
    sum += op["latency_ms"].get<double>();
    // The data are rooflines here, so each operator attains its own.
    const std::string bound = op["bound"];
    const double latency = op["latency_ms"];
    EXPECT_EQ(bound == "none", latency == 0) << op;
    if (bound == "compute" || bound == "bandwidth") {
      EXPECT_NEAR(op["attained"].get<double>(), 1.0, 1e-12) << op;
      EXPECT_EQ(bound == "compute", op["speed_of_light_compute_ms"].get<double>() >=
                                        op["speed_of_light_memory_ms"].get<double>());
    }
    if (op["name"] == "context_ar_1") {
      EXPECT_EQ(bound, "communication");
    } else if (op["name"] == "context_qkv_gemm") {
      EXPECT_EQ(op["count"], 8);
    }
  }
  EXPECT_NEAR(sum, all["schedule"]["step_with_prefill_ms"].get<double>(), 1e-9 * sum);
  double shares = 0;
  for (const json& phase : all["time"]) {
    shares += phase["share_of_time"].get<double>();
    double bounds = 0;
    for (const json& share : phase["by_bound"]) bounds += share.get<double>();
    EXPECT_NEAR(bounds, 1.0, 1e-9);
  }
  EXPECT_NEAR(shares, 1.0, 1e-9);
  EXPECT_NEAR(all["trust"]["by_provenance"]["speed_of_light"].get<double>(), 1.0, 1e-9);

  const Outcome text = Ask({"--tp", "2", "--bs", "8", "--detail", "time,source"});
  EXPECT_THAT(text.out, HasSubstr("step with prefill ("));
  EXPECT_THAT(text.out, HasSubstr("100 % of bandwidth"));
  EXPECT_THAT(text.out, HasSubstr("where the time goes"));
  EXPECT_THAT(text.out, HasSubstr("of the time 100 % speed of light"));
  EXPECT_THAT(Ask({"--tp", "2", "--bs", "8"}).out, Not(HasSubstr("where the time goes")));
  const Outcome wrong = Ask({"--tp", "1", "--detail", "tme"});
  EXPECT_EQ(wrong.exit_code, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean time"));
}

TEST_F(EstimateCommandTest, EveryModeTellsWhatBoundsItsOperators) {
  const struct {
    std::vector<const char*> arguments;
    std::vector<const char*> phases;
    bool moe;
  } cases[] = {
      {{"--estimate-mode", "static", "--tp", "1", "--bs", "4"}, {"context", "generation"}, false},
      {{"--estimate-mode", "disagg", "--tp", "1"}, {"prefill", "decode"}, false},
      {{"--estimate-mode", "afd", "--n-a-nodes", "1", "--n-f-nodes", "1", "--a-batch-size", "32"},
       {"decode_a_worker", "decode_f_worker", "prefill"},
       true},
  };
  for (const auto& c : cases) {
    std::vector<const char*> arguments = c.arguments;
    arguments.push_back("--detail");
    const json all = Json(arguments, c.moe);
    for (const char* phase : c.phases) {
      ASSERT_TRUE(all["operators"].contains(phase)) << phase;
      bool bandwidth = false;
      for (const json& op : all["operators"][phase]) bandwidth |= op["bound"] == "bandwidth";
      EXPECT_TRUE(bandwidth) << phase;
    }
  }
}

TEST_F(EstimateCommandTest, OptionsOfAnotherModeAreRefused) {
  const struct {
    std::vector<const char*> arguments;
    const char* says;
  } cases[] = {
      {{"--prefill-tp-size", "2"}, "--prefill-tp-size goes with --estimate-mode disagg only"},
      {{"--decode-system", "toy_sxm"}, "--decode-system goes with --estimate-mode disagg only"},
      {{"--n-a-nodes", "1"}, "--n-a-nodes goes with --estimate-mode afd only"},
      {{"--stride", "8"}, "--stride goes with the static modes only"},
      {{"--encoder-batch-size", "8"}, "--encoder-batch-size goes with --encoder-pool only"},
      {{"--estimate-mode", "static", "--encoder-pool"}, "agg and disagg only"},
      {{"--tpsize", "8"}, "unknown option --tpsize (did you mean"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = Ask(c.arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage) << c.says;
    EXPECT_THAT(outcome.err, HasSubstr(c.says));
  }
  const Outcome mode = Ask({"--estimate-mode", "aggg"});
  EXPECT_EQ(mode.exit_code, kExitInvalidConfig);
  EXPECT_THAT(mode.err, HasSubstr("did you mean agg"));
}

TEST_F(EstimateCommandTest, TooLargeABatchDoesNotFit) {
  const Outcome outcome = Ask({"--tp", "1", "--bs", "200000"});
  EXPECT_EQ(outcome.exit_code, kExitDoesNotFit) << outcome.err;
  EXPECT_EQ(Ask({"--tp", "3", "--bs", "8"}).exit_code, kExitInvalidConfig);
  EXPECT_EQ(Ask({"--tp", "1", "--bs", "0"}).exit_code, kExitInvalidConfig);
}

}  // namespace
}  // namespace infercast
