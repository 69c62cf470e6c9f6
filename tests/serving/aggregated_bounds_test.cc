// The steps that the aggregated formula composes keep the bounds of a mixed step: at least the
// larger of its two kinds of work, at most their sum; and so do the figures made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

struct Subject {
  const char* model;
  std::int64_t tp, experts;  // expert parallelism; 0: dense
};

constexpr Subject kSubjects[] = {
    {"Qwen/Qwen3-32B-FP8", 2, 0},
    {"openai/gpt-oss-120b", 1, 1},
    {"deepseek-ai/DeepSeek-V3", 8, 8},
    {"Qwen/Qwen3.5-397B-A17B", 8, 8},
};

std::shared_ptr<const Worker> WorkerOf(const Subject& subject, const char* system,
                                       Backend backend) {
  DeploymentRequest request;
  request.model = subject.model;
  request.system = system;
  request.backend = backend;
  testing::UseMeasuredAttention(request);
  const auto deployment = testing::OpenDeployment(request);
  if (!deployment) return nullptr;
  const ParallelLayout layout = testing::LayoutOf(subject.tp, 1, subject.experts);
  const auto worker = (*deployment)->MakeWorker(layout);
  return worker ? *worker : nullptr;
}

class AggregatedBounds : public ::testing::TestWithParam<Backend> {};

TEST_P(AggregatedBounds, StepsLieBetweenTheLargerPartAndTheSum) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  int rows = 0;
  for (const char* system : {"h200_sxm", "b200_sxm"}) {
    for (const Subject& subject : kSubjects) {
      const auto worker = WorkerOf(subject, system, GetParam());
      if (worker == nullptr) continue;
      SCOPED_TRACE(std::string(system) + " " + subject.model);
      for (const std::int64_t isl : {200, 4000}) {
        for (const std::int64_t batch : {2, 16, 200}) {
          for (const std::int64_t ctx : {64, 1024, 8192}) {
            Workload workload;
            workload.isl = isl;
            workload.osl = 300;
            const auto row = EvaluateAggregated(*worker, workload, batch, ctx, {});
            if (!row) continue;  // not measured
            const auto prefill =
                worker->engine().MixedStep({.context_tokens = static_cast<std::uint32_t>(ctx),
                                            .isl = static_cast<std::uint32_t>(isl),
                                            .osl = 300});
            const auto decode =
                worker->engine().DecodeStep(static_cast<std::uint32_t>(row->mixed_decodes),
                                            static_cast<std::uint32_t>(isl), 300);
            ASSERT_TRUE(prefill && decode);
            const double p = prefill->total_ms(), d = decode->latency_ms;
            ASSERT_GE(row->mixed_step_ms, std::max(p, d) * (1 - 1e-12)) << batch << " " << ctx;
            ASSERT_LE(row->mixed_step_ms, (p + d) * (1 + 1e-12)) << batch << " " << ctx;
            // A mean of steps lies between them.
            ASSERT_LE(row->tpot, std::max(row->mixed_step_ms, row->decode_step_ms) * (1 + 1e-12));
            ASSERT_GE(row->tpot, std::min(row->mixed_step_ms, row->decode_step_ms) * (1 - 1e-12));
            ++rows;
          }
        }
      }
    }
  }
  EXPECT_GT(rows, 50);
}

INSTANTIATE_TEST_SUITE_P(Backends, AggregatedBounds,
                         ::testing::Values(Backend::kTrtllm, Backend::kSglang, Backend::kVllm),
                         [](const auto& info) { return std::string(ToString(info.param)); });

}  // namespace
}  // namespace infercast
