// Batches answer every shape as it would be answered alone.
#include "engine/batch.h"

#include <gtest/gtest.h>

#include "engine/data_free.h"

namespace infercast {
namespace {

TEST(Batch, KeepsOrderAndFailures) {
  const testing::DataFreeSystem system;
  const auto engine = system.Open(2);
  const std::vector<MixedShape> mixed = {
      {.context_tokens = 100, .decodes = 5, .isl = 100, .osl = 70, .prefix = 20},
      {.context_tokens = 16, .decodes = 0, .isl = 4, .osl = 2, .prefix = 4},
      {.context_tokens = 0, .decodes = 5, .isl = 100, .osl = 70}};
  const auto steps = MixedSteps(*engine, mixed);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0]->total_ms(), engine->MixedStep(mixed[0])->total_ms());
  EXPECT_EQ(steps[1].error().kind, ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(steps[2]->total_ms(), engine->MixedStep(mixed[2])->total_ms());

  const std::vector<DecodeShape> decodes = {{5, 100, 70}, {0, 100, 70}, {5, 100, 70, 0.5}};
  const auto decode = DecodeSteps(*engine, decodes);
  ASSERT_EQ(decode.size(), 3u);
  EXPECT_DOUBLE_EQ(decode[0]->latency_ms, 0.027031250000000003);
  EXPECT_EQ(decode[1]->latency_ms, 0.0);
  EXPECT_EQ(decode[2]->latency_ms, engine->DecodeStep(5, 100, 70, 0.5)->latency_ms);

  const std::vector<StaticRequest> requests = {
      {.shape = {.batch_size = 3, .beam_width = 2, .isl = 100, .osl = 70, .prefix = 20}},
      {.shape = {.isl = 4, .osl = 2, .prefix = 4}}};
  const auto batches = StaticBatches(*engine, requests);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_DOUBLE_EQ(batches[0]->generation.latency_ms, 2.1346875);
  EXPECT_FALSE(batches[1]);
  EXPECT_TRUE(StaticBatches(*engine, {}).empty());
}

}  // namespace
}  // namespace infercast
