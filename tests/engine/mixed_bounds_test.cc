// A native mixed step costs at least the larger of its prefill step and its decode step, and at
// most their sum; so does an observed pass. Random shapes over systems, backends, database modes
// and models of every kind of layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

struct Subject {
  const char* model;
  const char* kind;
  std::int64_t tp, dp, experts;  // expert parallelism; 0: dense
};

constexpr Subject kSubjects[] = {
    {"Qwen/Qwen3-32B", "dense", 2, 1, 0},
    {"Qwen/Qwen3-32B-FP8", "dense", 4, 1, 0},
    {"meta-llama/Meta-Llama-3.1-8B", "dense", 1, 1, 0},
    {"nvidia/Llama-3_3-Nemotron-Super-49B-v1", "layers that differ", 4, 1, 0},
    {"Qwen/Qwen3-235B-A22B", "experts", 1, 8, 8},
    {"Qwen/Qwen3-30B-A3B", "experts", 2, 1, 2},
    {"openai/gpt-oss-120b", "windows", 1, 1, 1},
    {"openai/gpt-oss-120b", "windows", 4, 1, 4},
    {"deepseek-ai/DeepSeek-V3", "latent", 8, 1, 8},
    {"deepseek-ai/DeepSeek-V3", "latent", 1, 16, 16},
    {"deepseek-ai/DeepSeek-V3.2", "sparse", 8, 1, 8},
    {"deepseek-ai/DeepSeek-V4-Flash", "compressed", 8, 1, 8},
    {"nvidia/Nemotron-H-56B-Base-8K", "states", 4, 1, 0},
    {"Qwen/Qwen3.5-397B-A17B", "states", 8, 1, 8},
    {"moonshotai/Kimi-K3", "states", 8, 1, 8},
    {"MiniMaxAI/MiniMax-M3", "blocks", 8, 1, 8},
};

Result<std::shared_ptr<const Worker>> WorkerOf(const Subject& subject, const char* system,
                                               Backend backend, DatabaseMode mode,
                                               std::optional<std::string> version = {}) {
  DeploymentRequest request;
  request.model = subject.model;
  request.system = system;
  request.backend = backend;
  request.mode = mode;
  request.allow_unlisted = version.has_value();
  request.version = std::move(version);
  testing::UseMeasuredAttention(request);
  IC_ASSIGN(const auto deployment, testing::OpenDeployment(request));
  const ParallelLayout layout = testing::LayoutOf(subject.tp, subject.dp, subject.experts);
  return deployment->MakeWorker(layout);
}

class Draw {
 public:
  // Sizes of every order of magnitude alike.
  std::uint32_t Size(double low, double high) {
    return static_cast<std::uint32_t>(std::exp(
        std::uniform_real_distribution<double>(std::log(low), std::log(high + 1))(random_)));
  }
  bool OneIn(int n) { return std::uniform_int_distribution<int>(1, n)(random_) == 1; }

 private:
  std::mt19937 random_{11};
};

MixedShape Shape(Draw& draw) {
  MixedShape shape;
  shape.isl = draw.Size(2, 16000);
  // A whole prompt, several, or a part of one.
  shape.context_tokens = draw.OneIn(3) ? shape.isl * draw.Size(1, 3) : draw.Size(1, 16384);
  shape.decodes = draw.Size(1, 512);
  shape.osl = draw.Size(2, 2000);
  if (draw.OneIn(4)) shape.prefix = draw.Size(1, shape.isl) % shape.isl;
  if (draw.OneIn(4)) shape.context_imbalance = 1.3;
  if (draw.OneIn(4)) shape.generation_imbalance = 0.8;
  return shape;
}

ScheduledRequests Observation(Draw& draw) {
  ScheduledRequests r;
  r.num_prefill_requests = draw.Size(1, 8);
  r.sum_prefill_tokens = draw.Size(1, 16384);
  if (draw.OneIn(3)) r.sum_prefill_kv_tokens = draw.Size(1, 16384);
  r.num_decode_requests = draw.Size(1, 512);
  r.sum_decode_kv_tokens = r.num_decode_requests * draw.Size(1, 16000);
  return r;
}

void ExpectWithin(double both, double a, double b, const char* what) {
  ASSERT_GE(both, std::max(a, b) * (1 - 1e-12)) << what << ": " << a << " and " << b;
  ASSERT_LE(both, (a + b) * (1 + 1e-12)) << what << ": " << a << " and " << b;
}

double Latency(const MixedBreakdown& b) {
  return b.shared.TotalLatency() + b.context_attention.TotalLatency() +
         b.decode_attention.TotalLatency();
}
double Energy(const MixedBreakdown& b) {
  return b.shared.TotalEnergy() + b.context_attention.TotalEnergy() +
         b.decode_attention.TotalEnergy();
}

// Whether the shape could be priced; checks the step if so.
bool CheckStep(const Engine& engine, const MixedShape& shape) {
  MixedShape alone = shape;
  alone.decodes = 0;
  const auto mixed = engine.MixedStep(shape);
  const auto prefill = engine.MixedStep(alone);
  const auto decode =
      engine.DecodeStep(shape.decodes, shape.isl, shape.osl, shape.generation_imbalance);
  if (!mixed || !prefill || !decode) {
    EXPECT_FALSE(mixed);  // a step whose parts have no price has none either
    return false;
  }
  [&] {
    ExpectWithin(mixed->total_ms(), prefill->total_ms(), decode->latency_ms, "latency");
    ExpectWithin(mixed->energy_wms(), prefill->energy_wms(), decode->energy_wms, "energy");
    // Each kind of work alone is what the other calls say it is.
    alone = shape;
    alone.context_tokens = 0;
    ASSERT_NEAR(engine.MixedStep(alone)->total_ms(), decode->latency_ms,
                1e-12 * decode->latency_ms);
    if (shape.context_tokens % shape.isl == 0 && shape.context_imbalance == 1) {
      ASSERT_NEAR(*engine.PredictPrefill(shape.context_tokens / shape.isl, shape.isl, shape.prefix),
                  prefill->total_ms(), 1e-12 * prefill->total_ms());
    }
    const auto parts = engine.ExplainMixedStep(shape);
    ASSERT_TRUE(parts);
    ASSERT_NEAR(Latency(*parts), mixed->total_ms(), 1e-12 * mixed->total_ms());
    ASSERT_NEAR(Energy(*parts), mixed->energy_wms(), 1e-12 * mixed->energy_wms());
  }();
  return true;
}

// Whether the pass could be priced; checks it if so.
bool CheckObservation(const Engine& engine, const ScheduledRequests& both) {
  ScheduledRequests prefill = both, decode = both;
  prefill.num_decode_requests = prefill.sum_decode_kv_tokens = 0;
  decode.num_prefill_requests = decode.sum_prefill_tokens = decode.sum_prefill_kv_tokens = 0;
  const auto pass = [&](const ScheduledRequests& r) {
    return engine.ObservedForwardPass(std::span(&r, 1));
  };
  const auto b = pass(both), p = pass(prefill), d = pass(decode);
  if (!b || !p || !d) {
    EXPECT_FALSE(b);  // as a step
    return false;
  }
  ExpectWithin(*b, *p, *d, "observed");
  return true;
}

using Place = std::tuple<const char*, Backend, DatabaseMode>;
class MixedBounds : public ::testing::TestWithParam<Place> {};

TEST_P(MixedBounds, HoldForEveryKindOfModel) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  const auto [system, backend, mode] = GetParam();
  std::set<std::string> kinds;
  int steps = 0, passes = 0;
  for (const Subject& subject : kSubjects) {
    const auto worker = WorkerOf(subject, system, backend, mode);
    if (!worker) continue;  // not built for this backend
    SCOPED_TRACE(subject.model);
    const Engine& engine = (*worker)->engine();
    Draw draw;
    for (int i = 0; i < 40; ++i) {
      const MixedShape shape = Shape(draw);
      SCOPED_TRACE(::testing::Message()
                   << "context_tokens " << shape.context_tokens << " decodes " << shape.decodes
                   << " isl " << shape.isl << " osl " << shape.osl << " prefix " << shape.prefix);
      const ScheduledRequests seen = Observation(draw);
      if (!CheckStep(engine, shape)) break;  // not measured
      passes += CheckObservation(engine, seen) ? 1 : 0;
      if (HasFatalFailure()) return;
      kinds.insert(subject.kind);
      ++steps;
    }
  }
  EXPECT_GE(kinds.size(), mode == DatabaseMode::kHybrid ? 6U : 3U);
  EXPECT_GT(steps, 200);
  EXPECT_GT(passes, 100);
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, MixedBounds,
    ::testing::Combine(::testing::Values("h200_sxm", "b200_sxm"),
                       ::testing::Values(Backend::kTrtllm, Backend::kSglang, Backend::kVllm),
                       ::testing::Values(DatabaseMode::kSilicon, DatabaseMode::kHybrid)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
             std::string(ToString(std::get<1>(info.param))) + "_" +
             std::string(ToString(std::get<2>(info.param)));
    });

// Power was measured with this version, of attention and experts: energy keeps the bounds, too
// (CheckStep).
TEST(MixedSteps, KeepTheBoundsOfEnergy) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  const auto worker = WorkerOf({"Qwen/Qwen3-235B-A22B", "experts", 4, 1, 4}, "b200_sxm",
                               Backend::kVllm, DatabaseMode::kSilicon, "0.22.0");
  ASSERT_TRUE(worker) << worker.error().message;
  const Database& database = (*worker)->engine().database();
  EngineSpec spec;
  const auto keep = [](const Operator& op) {
    return std::holds_alternative<Moe>(op.kind) || op.name() == "context_attention" ||
           op.name() == "generation_attention";
  };
  std::ranges::copy_if((*worker)->plan().context_ops, std::back_inserter(spec.context_ops), keep);
  std::ranges::copy_if((*worker)->plan().generation_ops, std::back_inserter(spec.generation_ops),
                       keep);
  const auto engine = Engine::Bind(spec, database);
  ASSERT_TRUE(engine) << engine.error().message;
  Draw draw;
  for (int i = 0; i < 300; ++i) {
    const MixedShape shape = Shape(draw);
    const auto cost = (*engine)->MixedStep(shape);
    ASSERT_TRUE(cost) << cost.error().message;
    ASSERT_TRUE(CheckStep(**engine, shape)) << i;
    ASSERT_FALSE(HasFatalFailure()) << i;
    ASSERT_GT(cost->shared.energy_wms, 0);
    ASSERT_NEAR(cost->shared.powered_ms, cost->shared.latency_ms, 1e-9 * cost->total_ms());
  }
}

// DeepSeek's latent attention stands in blocks of another name; its decodes are not free.
TEST(MixedSteps, PriceTheDecodesOfLatentAttention) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  const auto worker = WorkerOf({"deepseek-ai/DeepSeek-V3", "latent", 8, 1, 8}, "h200_sxm",
                               Backend::kSglang, DatabaseMode::kSilicon);
  ASSERT_TRUE(worker) << worker.error().message;
  const auto parts = (*worker)->engine().ExplainMixedStep(
      {.context_tokens = 64, .decodes = 200, .isl = 14000, .osl = 100});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->decode_attention.entries.size(), 1U);
  EXPECT_EQ(parts->decode_attention.entries[0].name, "generation_mla_block");
  EXPECT_GT(parts->decode_attention.TotalLatency(), parts->shared.TotalLatency());
}

// The prefill list of models with experts has no logits; the decodes of a step need theirs.
TEST(MixedSteps, PriceTheLogitsOfDecodes) {
  IC_REQUIRE_DATA(root);
  static_cast<void>(root);
  const auto worker = WorkerOf({"openai/gpt-oss-120b", "windows", 1, 1, 1}, "b200_sxm",
                               Backend::kVllm, DatabaseMode::kSilicon);
  ASSERT_TRUE(worker) << worker.error().message;
  const auto parts = (*worker)->engine().ExplainMixedStep(
      {.context_tokens = 512, .decodes = 200, .isl = 2000, .osl = 100});
  const auto decode = (*worker)->engine().ExplainDecodeStep(200, 2000, 100);
  ASSERT_TRUE(parts && decode);
  const auto logits = [](const Breakdown& b) {
    const auto found = std::ranges::find(b.entries, "generation_logits_gemm", &OpEntry::name);
    return found == b.entries.end() ? -1 : found->latency_ms;
  };
  EXPECT_GT(logits(parts->shared), 0);
  EXPECT_DOUBLE_EQ(logits(parts->shared), logits(*decode));
}

}  // namespace
}  // namespace infercast
