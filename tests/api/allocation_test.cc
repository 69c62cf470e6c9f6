// Questions that a scheduler asks between iterations allocate nothing. Needs the data package.
#include <gtest/gtest.h>

#include <span>

#include "infercast/infercast.hpp"
#include "operators/allocation_counter.h"

namespace infercast {
namespace {

TEST(ApiAllocations, ForwardPassesAndOnlineEstimatesDoNotAllocate) {
  ModelOptions options;
  options.model = "Qwen/Qwen3-32B";
  options.data.system = "h200_sxm";
  options.data.backend = "vllm";
  options.parallelism.tp = 2;
  const Engine engine = Engine::Compile(options).value();
  OnlineModel model = OnlineModel::FromEngine(engine).value();
  const ForwardPassMetrics rank{.scheduled = {.num_prefill_requests = 1,
                                              .sum_prefill_tokens = 1000,
                                              .num_decode_requests = 32,
                                              .sum_decode_kv_tokens = 64000},
                                .wall_time_s = 0.1};
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(model.Observe(std::span(&rank, 1)));
  ASSERT_EQ(model.Diagnostics().source, "aic_with_correction");
  const ScheduledRequests ranks[] = {rank.scheduled,
                                     {.num_decode_requests = 3, .sum_decode_kv_tokens = 999}};
  double sum = 0;
  const std::uint64_t before = testing::AllocationCount();
  for (int i = 0; i < 10; ++i) {
    sum += *engine.ForwardPass(rank.scheduled);
    sum += *engine.ForwardPass(ranks);
    sum += **model.Estimate(rank);
    sum += *engine.Decode(32, 2048);
    sum += *engine.Prefill(2, 1000, 100);
    sum += engine.DecodeStep(32, 2048, 100)->latency_ms;
    sum +=
        engine.MixedStep({.context_tokens = 100, .decodes = 7, .isl = 500, .osl = 50})->total_ms();
  }
  EXPECT_EQ(testing::AllocationCount() - before, 0u);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace infercast
