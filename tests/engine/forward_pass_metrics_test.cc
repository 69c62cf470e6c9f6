// Telemetry records: reading, validating, pricing.
#include "engine/forward_pass_metrics.h"

#include <gtest/gtest.h>

#include "engine/data_free.h"

namespace infercast {
namespace {

TEST(ForwardPassMetrics, EveryMemberIsOptional) {
  const auto ranks = ParseRankMetrics("{}");
  ASSERT_TRUE(ranks) << ranks.error().message;
  ASSERT_EQ(ranks->size(), 1u);
  EXPECT_EQ(ranks->front(), ForwardPassMetrics{});
}

TEST(ForwardPassMetrics, ReadsAFullRecord) {
  const auto ranks = ParseRankMetrics(
      R"([{"version":1,"worker_id":"w","dp_rank":3,"counter_id":18446744073709551615,)"
      R"("wall_time":0.25,"unknown":[],"scheduled_requests":{"num_prefill_requests":1,)"
      R"("sum_prefill_tokens":2,"var_prefill_length":0.5,"sum_prefill_kv_tokens":3,)"
      R"("num_decode_requests":4,"sum_decode_kv_tokens":5,"var_decode_kv_tokens":1},)"
      R"("queued_requests":{"num_decode_requests":6}}])");
  ASSERT_TRUE(ranks) << ranks.error().message;
  ForwardPassMetrics expected;
  expected.worker_id = "w";
  expected.dp_rank = 3;
  expected.counter_id = 18446744073709551615ULL;
  expected.wall_time = 0.25;
  expected.scheduled_requests = {1, 2, 0.5, 3, 4, 5, 1.0};
  expected.queued_requests.num_decode_requests = 6;
  EXPECT_EQ(ranks->front(), expected);
}

TEST(ForwardPassMetrics, RefusesOtherTypes) {
  for (const char* text :
       {"", "nonsense", "3", "null", "[3]", R"({"version":-1})", R"({"dp_rank":1.5})",
        R"({"scheduled_requests":null})", R"({"scheduled_requests":{"sum_prefill_tokens":"1"}})",
        R"({"scheduled_requests":{"sum_prefill_tokens":4294967296}})"}) {
    const auto ranks = ParseRankMetrics(text);
    ASSERT_FALSE(ranks) << text;
    EXPECT_EQ(ranks.error().kind, ErrorKind::kInvalidArgument) << text;
  }
}

TEST(ForwardPassMetrics, IterationsHaveOneWireFormAndSeveralConvenientOnes) {
  EXPECT_EQ(ParseIterations("[[{}],[{},{}]]")->size(), 2u);
  EXPECT_TRUE(ParseIterations("[]")->empty());
  for (const char* text : {"{}", "[{}]", "3", "null", ""}) {
    EXPECT_FALSE(ParseIterations(text)) << text;
  }
  const auto shape = [](const char* text) {
    std::vector<std::size_t> ranks;
    const auto iterations = ParseAnyIterations(text);
    EXPECT_TRUE(iterations) << text;
    if (iterations) {
      for (const auto& iteration : *iterations) ranks.push_back(iteration.size());
    }
    return ranks;
  };
  using Shape = std::vector<std::size_t>;
  EXPECT_EQ(shape("{}"), Shape{});
  EXPECT_EQ(shape("[]"), Shape{});
  EXPECT_EQ(shape("null"), Shape{});
  EXPECT_EQ(shape(R"({"wall_time":1})"), Shape{1});
  EXPECT_EQ(shape("[{},{}]"), Shape{2});
  EXPECT_EQ(shape("[[{}],[{},{}]]"), (Shape{1, 2}));
  EXPECT_FALSE(ParseAnyIterations("3"));
}

TEST(ForwardPassMetrics, ValidationNamesTheProblem) {
  ForwardPassMetrics metrics;
  EXPECT_TRUE(ValidateMetrics(metrics));
  metrics.version = 2;
  metrics.scheduled_requests.sum_prefill_tokens = 1;
  EXPECT_EQ(ValidateMetrics(metrics).error().kind, ErrorKind::kUnsupportedSchemaVersion);
  metrics.version = 1;
  EXPECT_EQ(ValidateMetrics(metrics).error().kind, ErrorKind::kInvalidForwardPassMetrics);
  metrics.scheduled_requests.num_prefill_requests = 1;
  EXPECT_TRUE(ValidateMetrics(metrics));
  metrics.scheduled_requests.sum_decode_kv_tokens = 1;
  EXPECT_EQ(ValidateMetrics(metrics).error().kind, ErrorKind::kInvalidForwardPassMetrics);
}

TEST(ForwardPassMetrics, PricesAnIteration) {
  const testing::DataFreeSystem system;
  const auto engine = system.Open(std::nullopt);
  ForwardPassMetrics metrics;
  metrics.scheduled_requests.num_decode_requests = 4;
  metrics.scheduled_requests.sum_decode_kv_tokens = 400;
  const auto ms = ObservedForwardPass(*engine, std::vector{metrics});
  ASSERT_TRUE(ms);
  EXPECT_NEAR(*ms, 4 * 5e6 / 3.84e9 + 0.003 * 2.5, 1e-12);
  metrics.version = 2;
  EXPECT_FALSE(ObservedForwardPass(*engine, std::vector{metrics}));
  EXPECT_EQ(ObservedForwardPass(*engine, {}).error().kind, ErrorKind::kInvalidForwardPassMetrics);
}

}  // namespace
}  // namespace infercast
