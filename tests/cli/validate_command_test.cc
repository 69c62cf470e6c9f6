// The commands validate and calibrate from the command line.
#include "cli/validate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/calibrate_command.h"
#include "cli/run_command.h"
#include "support/data_files.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

Outcome Command(const std::vector<std::string>& arguments) {
  std::vector<const char*> texts;
  for (const std::string& a : arguments) texts.push_back(a.c_str());
  return testing::RunCommand(texts, [](CLI::App& app, CliContext& context) {
    AddValidateCommand(app, context);
    AddCalibrateCommand(app, context);
  });
}

class MeasuredPoints : public ::testing::Test {
 protected:
  void SetUp() override {
    points = (folder.path() / "points.csv").string();
    testing::WriteText(points,
                       "model,system,backend,precision,isl,osl,concurrency,tp,ttft_ms,tpot_ms\n"
                       "Qwen/Qwen3-32B,h200_sxm,vllm,bf16,1024,256,8,2,100,12\n"
                       "Qwen/Qwen3-32B,h200_sxm,vllm,bf16,1024,256,16,2,150,13\n");
  }
  testing::TemporaryDirectory folder;
  std::string points;
};

TEST_F(MeasuredPoints, AreScoredAsJson) {
  IC_REQUIRE_DATA(root);
  const std::string page = (folder.path() / "page.html").string();
  const Outcome outcome = Command({"validate", "--measured", points, "--json", "--html", page});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("overall").at("answered_percent"), 100);
  EXPECT_THAT(testing::ReadText(page), HasSubstr("<svg"));
}

TEST_F(MeasuredPoints, CorrectionsCanBeSetAndDropped) {
  IC_REQUIRE_DATA(root);
  const auto ttft = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"validate", "--measured", points, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = Command(all);
    EXPECT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("points")[0].at("ttft_ms").get<double>();
  };
  const double bare = ttft({"--no-corrections"});
  EXPECT_GT(ttft({}), bare);
  EXPECT_NEAR(ttft({"--no-corrections", "--correction", "first_token_ms=7"}), bare + 7, 1e-9);
  const Outcome unknown =
      Command({"validate", "--measured", points, "--correction", "first_token_s=7"});
  EXPECT_THAT(unknown.err, HasSubstr("first_token_ms"));
  EXPECT_NE(unknown.exit_code, kExitAnswer);
}

TEST_F(MeasuredPoints, CalibrateThenValidate) {
  IC_REQUIRE_DATA(root);
  const std::string profile = (folder.path() / "profile.json").string();
  const Outcome learnt = Command({"calibrate", "--measured", points, "-o", profile});
  ASSERT_EQ(learnt.exit_code, kExitAnswer) << learnt.err;
  EXPECT_THAT(learnt.out, HasSubstr("2 measured points, 1 families"));
  const Outcome outcome =
      Command({"validate", "--measured", points, "--calibration", profile, "--json"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_TRUE(
      nlohmann::json::parse(outcome.out).at("points")[0].at("calibrated_ttft_ms").is_number());
  testing::WriteText(profile, "{}");
  EXPECT_EQ(Command({"validate", "--measured", points, "--calibration", profile}).exit_code,
            kExitInvalidConfig);
}

TEST_F(MeasuredPoints, ResultFilesTakeTheDeploymentFromOptions) {
  IC_REQUIRE_DATA(root);
  const std::string result = (folder.path() / "result.json").string();
  testing::WriteText(result,
                     R"({"model_id": "served-name", "max_concurrency": 4, "completed": 40,
                         "total_input_tokens": 40000, "total_output_tokens": 4000,
                         "mean_ttft_ms": 90, "mean_tpot_ms": 11})");
  const Outcome outcome =
      Command({"validate", "--measured", result, "--model", "Qwen/Qwen3-32B", "--system",
               "h200_sxm", "--backend", "vllm", "--tp", "2", "--csv"});
  ASSERT_EQ(outcome.exit_code, kExitAnswer) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("answered,agg,vllm,,h200_sxm,Qwen/Qwen3-32B,,1000,100,4,90,"));
}

TEST_F(MeasuredPoints, MissingFilesAreAnInputError) {
  EXPECT_EQ(Command({"validate", "--measured", "/nowhere/points.csv"}).exit_code, kExitIo);
  EXPECT_EQ(Command({"validate"}).exit_code, kExitUsage);
}

}  // namespace
}  // namespace infercast
