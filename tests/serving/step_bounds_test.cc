// A step with prompts and decodes costs at least the larger of the two apart and at most their sum:
// random shapes over backends, models with other kinds of attention and experts, and ranks of
// unequal load.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serving/measured_deployment.h"
#include "serving/step_costs.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

struct Subject {
  const char* model;
  std::int64_t tp, dp, experts;  // expert parallelism; 0: dense
};

// Dense; experts over data-parallel ranks; sliding windows and sinks; latent attention.
constexpr Subject kSubjects[] = {
    {"Qwen/Qwen3-32B", 2, 1, 0},
    {"meta-llama/Meta-Llama-3.1-8B", 1, 1, 0},
    {"Qwen/Qwen3-235B-A22B", 1, 8, 8},
    {"Qwen/Qwen3-30B-A3B", 2, 2, 4},
    {"openai/gpt-oss-120b", 1, 1, 1},
    {"deepseek-ai/DeepSeek-V3", 8, 1, 8},
    {"deepseek-ai/DeepSeek-V3", 1, 16, 16},
};

std::shared_ptr<StepCosts> CostsOf(const Subject& subject, Backend backend) {
  DeploymentRequest request;
  request.model = subject.model;
  request.system = "h200_sxm";
  request.backend = backend;
  testing::UseMeasuredAttention(request);
  const auto deployment = testing::OpenDeployment(request);
  if (!deployment) return nullptr;
  const ParallelLayout layout = testing::LayoutOf(subject.tp, subject.dp, subject.experts);
  auto worker = (*deployment)->MakeWorker(layout);
  if (!worker) return nullptr;
  auto costs = StepCosts::Create(*std::move(worker));
  return costs ? *costs : nullptr;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  // Sizes of every order of magnitude alike.
  double Size(double low, double high) {
    return std::floor(std::exp(
        std::uniform_real_distribution<double>(std::log(low), std::log(high + 1))(random_)));
  }
  double Real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

 private:
  std::mt19937 random_;
};

// Every rank may have prompts, decodes, both or nothing.
std::vector<RankLoad> Shape(Draw& draw, StepCosts& costs, std::int64_t ranks) {
  std::vector<RankLoad> loads(static_cast<std::size_t>(ranks));
  for (RankLoad& load : loads) {
    const std::int64_t chunks = draw.Between(0, 4);
    for (std::int64_t i = 0; i < chunks; ++i) {
      const double tokens = draw.Size(1, 4096);
      const double cached = draw.Between(0, 2) == 0 ? draw.Size(1, 8192) : 0;
      ++load.context.chunks;
      load.context.tokens += static_cast<std::int64_t>(tokens);
      load.context.attention_alone += costs.ContextAttention(tokens, cached);
    }
    if (draw.Between(0, 3) > 0) {
      load.decodes = static_cast<std::int64_t>(draw.Size(1, 512));
      load.mean_kv = draw.Size(2, 16000);
    }
  }
  return loads;
}

class StepBounds : public ::testing::TestWithParam<Backend> {};

TEST_P(StepBounds, BothKindsOfWorkCostBetweenTheLargerAndTheSum) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  int subjects = 0, mixed_steps = 0, at_a_bound = 0;
  for (const Subject& subject : kSubjects) {
    const auto costs = CostsOf(subject, GetParam());
    if (costs == nullptr) continue;  // not measured with this backend
    Draw draw(static_cast<unsigned>(7 + subjects));
    for (int i = 0; i < 150; ++i) {
      const std::vector<RankLoad> loads = Shape(draw, *costs, subject.dp);
      const StepCorrections corrections{draw.Real(0.5, 1.8), draw.Real(0.7, 1.2),
                                        draw.Real(0, 0.05)};
      const double prompts =
          std::ranges::any_of(loads, [](const RankLoad& l) { return l.context.chunks > 0; })
              ? costs->ContextMs(loads, corrections)
              : 0;
      const double decodes = costs->DecodeMs(loads, corrections);
      const double both = costs->StepMs(loads, corrections);
      if (!costs->status()) break;  // sizes without measurements
      ASSERT_GE(both, std::max(prompts, decodes) * (1 - 1e-12)) << subject.model << " shape " << i;
      ASSERT_LE(both, (prompts + decodes) * (1 + 1e-12)) << subject.model << " shape " << i;
      if (prompts > 0 && decodes > 0) ++mixed_steps;
      if (both == prompts + decodes || both == std::max(prompts, decodes)) ++at_a_bound;
    }
    if (costs->status()) ++subjects;
  }
  EXPECT_GE(subjects, 4);
  EXPECT_GT(mixed_steps, 400);
  // The bounds are a guard, not the price.
  EXPECT_LT(at_a_bound, mixed_steps);
}

INSTANTIATE_TEST_SUITE_P(Backends, StepBounds,
                         ::testing::Values(Backend::kTrtllm, Backend::kSglang, Backend::kVllm),
                         [](const auto& info) { return std::string(ToString(info.param)); });

}  // namespace
}  // namespace infercast
