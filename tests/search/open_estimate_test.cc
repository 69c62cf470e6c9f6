// What is filled in where a deployment leaves something open, and that it is told.
#include "search/open_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tables/measured_data.h"

namespace infercast {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class OpenEstimate : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto root = testing::SystemsRoot();
    ASSERT_TRUE(root) << "no measured data: run infercast data fetch";
    checkpoints_.config_dirs.push_back(root->parent_path() / "model_configs");
    systems_.emplace(std::vector{*root});
    bench_.emplace(*systems_, checkpoints_);
  }
  static EstimateRequest Request(const std::string& model, const std::string& system) {
    EstimateRequest request;
    request.model = model;
    request.system = system;
    return request;
  }
  CheckpointSearch checkpoints_;
  std::optional<SystemsCatalog> systems_;
  std::optional<Workbench> bench_;
};

constexpr OpenChoices kEverything{.layout = true, .experts = true, .estimates = true};

TEST_F(OpenEstimate, MeasuredModelsAreNotEstimated) {
  const auto chosen =
      EstimateWithChoices(Request("Qwen/Qwen3-32B", "h200_sxm"), kEverything, *bench_);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->request.database_mode, DatabaseMode::kSilicon);
  EXPECT_THAT(chosen->notes, Not(Contains(HasSubstr("estimated"))));
  EXPECT_THAT(chosen->notes, Contains(HasSubstr("no parallelism given: tp1")));
}

// Its experts were measured nowhere.
TEST_F(OpenEstimate, WhatWasNotMeasuredIsEstimatedAndSaysSo) {
  const EstimateRequest request = Request("stepfun-ai/Step-3.7-Flash", "h200_sxm");
  const auto chosen = EstimateWithChoices(request, kEverything, *bench_);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->request.database_mode, DatabaseMode::kHybrid);
  EXPECT_THAT(chosen->notes, Contains(HasSubstr("not everything was measured (no measurements of "
                                                "moe_perf")));
  const auto strict = EstimateWithChoices(request, {.layout = true, .experts = true}, *bench_);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::kPerfDatabase);
  EXPECT_THAT(strict.error().message, HasSubstr("moe_perf"));
}

TEST_F(OpenEstimate, TooLargeIsSaidThoughWiderWorkersWereNotMeasured) {
  EstimateRequest request = Request("zai-org/GLM-5", "h200_sxm");
  request.backend = Backend::kVllm;
  request.batch = 4096;
  const auto chosen = EstimateWithChoices(request, kEverything, *bench_);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().kind, ErrorKind::kDoesNotFit);
}

// Of a family whose other members have experts.
TEST_F(OpenEstimate, AModelWithoutExpertsGetsNoExpertParallelism) {
  EstimateRequest request = Request("nvidia/Gemma-4-31B-IT-NVFP4", "b200_sxm");
  request.layout.tp = 8;
  const auto chosen = EstimateWithChoices(request, {.experts = true, .estimates = true}, *bench_);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->request.layout.moe_ep, 1);
  EXPECT_THAT(chosen->notes, Not(Contains(HasSubstr("expert width"))));
}

}  // namespace
}  // namespace infercast
