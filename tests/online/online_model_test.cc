// Learning from telemetry without an engine, and the options of both kinds of model.
#include "online/online_model.h"

#include <gtest/gtest.h>

#include <limits>

namespace infercast {
namespace {

using Ranks = std::vector<ForwardPassMetrics>;

ForwardPassMetrics Prefill(std::uint32_t tokens, double seconds = 0) {
  ForwardPassMetrics m;
  m.wall_time = seconds;
  m.scheduled_requests.num_prefill_requests = 1;
  m.scheduled_requests.sum_prefill_tokens = tokens;
  return m;
}
ForwardPassMetrics Decode(std::uint32_t requests, std::uint32_t kv, double seconds = 0) {
  ForwardPassMetrics m;
  m.wall_time = seconds;
  m.scheduled_requests.num_decode_requests = requests;
  m.scheduled_requests.sum_decode_kv_tokens = kv;
  return m;
}

OnlineModel Regression(const OnlineOptions& options = {}) {
  return *OnlineModel::FromRegression(options);
}
void Feed(OnlineModel& model, const Ranks& ranks) {
  ASSERT_TRUE(model.Tune(std::vector<Ranks>{ranks}));
}

TEST(OnlineRegression, KnowsNothingUntilItHasSeenEnough) {
  OnlineModel model = Regression();
  const std::vector<std::pair<std::uint32_t, double>> samples = {
      {128, .010}, {512, .012}, {1024, .016}, {2048, .030}};
  for (const auto& [tokens, seconds] : samples) Feed(model, {Prefill(tokens, seconds)});
  EXPECT_EQ(*model.Estimate(Ranks{Prefill(3000)}), std::nullopt);
  EXPECT_EQ(model.Diagnostics().readiness, OnlineReadiness::kInsufficientData);
  Feed(model, {Prefill(4096, .062)});
  EXPECT_NEAR(**model.Estimate(Ranks{Prefill(3000)}), 45.385051880674446, 1e-9);
  Feed(model, {Prefill(6144, .091)});
  EXPECT_NEAR(**model.Estimate(Ranks{Prefill(3000)}), 44.611891737397649, 1e-9);
  const OnlineDiagnostics d = model.Diagnostics();
  EXPECT_EQ(d.source, OnlineSource::kRegression);
  EXPECT_EQ(d.readiness, OnlineReadiness::kReady);
  EXPECT_EQ(d.retained_observations, 6u);
  EXPECT_EQ(model.Corrections().mean, std::nullopt);
  // Decode has not been seen.
  EXPECT_EQ(*model.Estimate(Ranks{Decode(1, 10)}), std::nullopt);
}

TEST(OnlineRegression, PredictionsStayPositive) {
  OnlineModel model = Regression({.min_observations = 2});
  Feed(model, {Prefill(1000, .001)});
  Feed(model, {Prefill(2000, .010)});
  EXPECT_DOUBLE_EQ(**model.Estimate(Ranks{Prefill(1)}), 1e-6);
}

TEST(OnlineRegression, TheHeaviestRankAndTheSlowestClockMakeTheObservation) {
  OnlineModel model = Regression({.min_observations = 1});
  Feed(model, {Prefill(100, .5), Prefill(300, .25), Decode(0, 0, .75)});
  EXPECT_DOUBLE_EQ(**model.Estimate(Ranks{Prefill(300)}), 750.0);
  // Of equally loaded ranks the last one says what kind of work it was.
  OnlineModel tie = Regression({.min_observations = 1});
  Feed(tie, {Prefill(100, .5), Decode(40, 60, .25)});
  EXPECT_EQ(*tie.Estimate(Ranks{Prefill(100)}), std::nullopt);
  EXPECT_DOUBLE_EQ(**tie.Estimate(Ranks{Decode(40, 60)}), 500.0);
}

TEST(OnlineRegression, IdleAndUntimedIterationsTeachNothing) {
  OnlineModel model = Regression({.min_observations = 1});
  Feed(model, {Decode(0, 0, 1.0)});
  Feed(model, {Prefill(100)});
  Feed(model, {Prefill(100, std::numeric_limits<double>::infinity())});
  EXPECT_EQ(model.Diagnostics().retained_observations, 0u);
  EXPECT_EQ(**model.Estimate(Ranks{Decode(0, 0)}), 0.0);
}

TEST(OnlineRegression, AnErrorKeepsWhatCameBefore) {
  OnlineModel model = Regression({.min_observations = 1});
  ForwardPassMetrics wrong = Prefill(100, .5);
  wrong.scheduled_requests.num_prefill_requests = 0;
  const Status status =
      model.Tune(std::vector<Ranks>{{Prefill(50, .1)}, {wrong}, {Prefill(60, .1)}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kInvalidForwardPassMetrics);
  EXPECT_EQ(model.Diagnostics().retained_observations, 1u);
  EXPECT_EQ(model.Estimate(Ranks{}).error().kind, ErrorKind::kInvalidForwardPassMetrics);
  ForwardPassMetrics newer = Prefill(1);
  newer.version = 2;
  EXPECT_EQ(model.Estimate(Ranks{newer}).error().kind, ErrorKind::kUnsupportedSchemaVersion);
}

TEST(OnlineRegression, CopiesLearnApart) {
  OnlineModel model = Regression({.min_observations = 1});
  OnlineModel copy = model;
  Feed(copy, {Prefill(50, .1)});
  EXPECT_EQ(model.Diagnostics().retained_observations, 0u);
  EXPECT_EQ(copy.Diagnostics().retained_observations, 1u);
}

TEST(OnlineModel, FallsBackOnlyForMissingModelsAndData) {
  const auto best = [](ErrorKind kind) {
    return OnlineModel::BestAvailable(Fail(kind, "why"), {});
  };
  const auto fallback = best(ErrorKind::kPerfDatabase);
  ASSERT_TRUE(fallback);
  EXPECT_EQ(fallback->Diagnostics().readiness, OnlineReadiness::kUnsupportedConfig);
  EXPECT_NE(fallback->Diagnostics().last_warning->find("why"), std::string::npos);
  EXPECT_EQ(best(ErrorKind::kMissingSystemFlops).error().kind, ErrorKind::kMissingSystemFlops);
  EXPECT_EQ(best(ErrorKind::kInvalidEngineConfig).error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST(OnlineOptions, RangesAreChecked) {
  const auto valid = [](auto change) {
    OnlineOptions options;
    change(options);
    return ValidateOptions(options).has_value();
  };
  EXPECT_TRUE(valid([](OnlineOptions&) {}));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.max_observations = 0; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.min_observations = 0; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.min_observations = 65; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.min_faster_correction_factor = 1.5; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.min_faster_correction_factor = 0.0; }));
  EXPECT_TRUE(valid([](OnlineOptions& o) { o.min_faster_correction_factor.reset(); }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.max_slower_correction_factor = 0.9; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) {
    o.max_slower_correction_factor = std::numeric_limits<double>::infinity();
  }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.bucket_count = 15; }));
  EXPECT_TRUE(valid([](OnlineOptions& o) { o.bucket_count = 1; }));
  EXPECT_FALSE(valid([](OnlineOptions& o) { o.max_kv_tokens = 0; }));
}

TEST(OnlineOptions, Text) {
  EXPECT_EQ(ParseOnlineOptions(" \n"), OnlineOptions{});
  const auto some = ParseOnlineOptions(
      R"({"bucket_count": 4, "min_faster_correction_factor": null, "unknown": []})");
  ASSERT_TRUE(some);
  EXPECT_EQ(some->bucket_count, 4u);
  EXPECT_EQ(some->min_faster_correction_factor, std::nullopt);
  EXPECT_EQ(some->max_observations, 64u);
  for (const char* text :
       {"{", "[]", "3", R"({"bucket_count": -1})", R"({"bucket_count": null})"}) {
    const auto options = ParseOnlineOptions(text);
    ASSERT_FALSE(options) << text;
    EXPECT_EQ(options.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace infercast
