// Mixed steps through the public interface: at least the larger of their prefill and decode steps,
// at most the sum. Needs the data package.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "infercast/infercast.hpp"

namespace infercast {
namespace {

struct Subject {
  const char* model;
  Parallelism parallelism;
};

double Sum(const Breakdown& breakdown) {
  double ms = 0;
  for (const OperatorCost& cost : breakdown) ms += cost.latency_ms;
  return ms;
}

class ApiMixedBounds : public ::testing::TestWithParam<const char*> {};

TEST_P(ApiMixedBounds, HoldOnEveryBackend) {
  const Subject subjects[] = {{"Qwen/Qwen3-32B", {.tp = 2}},
                              {"openai/gpt-oss-120b", {.tp = 1}},
                              {"deepseek-ai/DeepSeek-V3", {.tp = 8}},
                              {"Qwen/Qwen3.5-397B-A17B", {.tp = 8}},
                              {"MiniMaxAI/MiniMax-M3", {.tp = 8}}};
  std::uint32_t random = 5;
  const auto draw = [&random](std::uint32_t below) {
    random = random * 1664525U + 1013904223U;
    return 1 + (random >> 8) % below;
  };
  int steps = 0, models = 0;
  for (const char* system : {"h200_sxm", "b200_sxm"}) {
    for (const Subject& subject : subjects) {
      ModelOptions options;
      options.model = subject.model;
      options.data.system = system;
      options.data.backend = GetParam();
      options.data.mode = "HYBRID";
      options.parallelism = subject.parallelism;
      const auto engine = Engine::Compile(options);
      if (!engine) continue;  // not built for this backend
      SCOPED_TRACE(std::string(system) + " " + subject.model);
      int priced = 0;
      for (int i = 0; i < 40; ++i) {
        MixedShape shape;
        shape.isl = draw(i % 2 == 0 ? 300 : 12000);
        shape.context_tokens = i % 3 == 0 ? shape.isl : draw(i % 2 == 0 ? 400 : 9000);
        shape.decodes = draw(i % 5 == 0 ? 4 : 500);
        shape.osl = draw(1500);
        MixedShape prompts = shape;
        prompts.decodes = 0;
        const auto mixed = engine->MixedStep(shape);
        const auto prefill = engine->MixedStep(prompts);
        const auto decode = engine->DecodeStep(shape.decodes, shape.isl, shape.osl);
        if (!mixed || !prefill || !decode) break;  // no estimate
        const double p = prefill->total_ms(), d = decode->latency_ms;
        ASSERT_GE(mixed->total_ms(), std::max(p, d) * (1 - 1e-12)) << i;
        ASSERT_LE(mixed->total_ms(), (p + d) * (1 + 1e-12)) << i;
        if (shape.context_tokens == shape.isl) {
          ASSERT_NEAR(engine->Prefill(1, shape.isl, 0).value(), p, 1e-12 * p) << i;
        }
        const auto parts = engine->ExplainMixedStep(shape);
        ASSERT_TRUE(parts);
        ASSERT_NEAR(
            Sum(parts->shared) + Sum(parts->context_attention) + Sum(parts->decode_attention),
            mixed->total_ms(), 1e-12 * mixed->total_ms());

        const ScheduledRequests observed{.num_prefill_requests = 1,
                                         .sum_prefill_tokens = shape.context_tokens,
                                         .sum_prefill_kv_tokens = i % 4 == 0 ? shape.isl : 0,
                                         .num_decode_requests = shape.decodes,
                                         .sum_decode_kv_tokens = shape.decodes * shape.isl};
        ScheduledRequests first = observed, second = observed;
        first.num_decode_requests = first.sum_decode_kv_tokens = 0;
        second.num_prefill_requests = second.sum_prefill_tokens = second.sum_prefill_kv_tokens = 0;
        const double both = engine->ForwardPass(observed).value();
        const double a = engine->ForwardPass(first).value();
        const double b = engine->ForwardPass(second).value();
        ASSERT_GE(both, std::max(a, b) * (1 - 1e-12)) << i;
        ASSERT_LE(both, (a + b) * (1 + 1e-12)) << i;
        ++priced;
      }
      steps += priced;
      if (priced > 0) ++models;
    }
  }
  EXPECT_GE(models, 6);
  EXPECT_GT(steps, 200);
}

INSTANTIATE_TEST_SUITE_P(Backends, ApiMixedBounds, ::testing::Values("trtllm", "sglang", "vllm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace infercast
