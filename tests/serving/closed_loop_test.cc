// What must hold of the closed-loop forecast whatever the model: nothing lost, memory respected,
// order of queries irrelevant, and the simplest load equal to its walk through the steps.
#include "serving/closed_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

std::shared_ptr<StepCosts> CostsOf(const std::string& model, Backend backend,
                                   const ParallelLayout& layout) {
  DeploymentRequest request;
  request.model = model;
  request.system = "h200_sxm";
  request.backend = backend;
  const auto deployment = testing::OpenDeployment(request);
  if (!deployment) return nullptr;
  auto worker = (*deployment)->MakeWorker(layout);
  if (!worker) return nullptr;
  auto costs = StepCosts::Create(*std::move(worker));
  return costs ? *costs : nullptr;
}

std::shared_ptr<StepCosts> Dense(Backend backend) {
  ParallelLayout layout;
  layout.tp = 2;
  return CostsOf("Qwen/Qwen3-32B", backend, layout);
}

std::shared_ptr<StepCosts> ExpertsOverRanks() {
  ParallelLayout layout;
  layout.dp = 8;
  layout.moe_tp = 1;
  layout.moe_ep = 8;
  return CostsOf("Qwen/Qwen3-235B-A22B", Backend::kTrtllm, layout);
}

LoadSpec Closed(std::int64_t concurrency, std::int64_t isl = 1024, std::int64_t osl = 256) {
  LoadSpec load;
  load.isl = isl;
  load.osl = osl;
  load.concurrency = concurrency;
  return load;
}

const KvSpace kUnlimited{0, false};

class ClosedLoop : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    costs = Dense(GetParam());
    ASSERT_NE(costs, nullptr) << "no measured data: run infercast data fetch";
    policy = DefaultBatchPolicy(GetParam(), costs->worker().system(), 64, 1024);
    corrections = DefaultCorrections(GetParam(), false);
  }
  ServingForecast Run(const LoadSpec& load, const KvSpace& kv = kUnlimited) {
    const auto forecast = ForecastClosedLoop(*costs, policy, corrections, kv, load);
    EXPECT_TRUE(forecast) << forecast.error().message;
    return forecast.value_or(ServingForecast{});
  }
  std::shared_ptr<StepCosts> costs;
  BatchPolicy policy;
  ServingCorrections corrections;
};

TEST_P(ClosedLoop, OneRequestAtATimeIsPrefillThenDecodeWalk) {
  LoadSpec load = Closed(1);
  load.shortest = 1;
  const ServingForecast forecast = Run(load);
  std::vector<RankLoad> rank(1);
  rank[0].context = {1, load.isl, costs->ContextAttention(1024, 0)};
  const double prefill = costs->ContextMs(rank, corrections.step);
  double decode = 0;
  for (std::int64_t done = 0; done < load.osl - 1;) {
    const std::int64_t jump = std::min<std::int64_t>(64, load.osl - 1 - done);
    rank[0] = {{}, 1, static_cast<double>(load.isl + 1 + done)};
    decode += static_cast<double>(jump) * costs->DecodeMs(rank, corrections.step);
    done += jump;
  }
  const double tpot = decode / static_cast<double>(load.osl - 1);
  const double ttft = prefill + corrections.first_token_ms + corrections.first_token_steps * tpot +
                      corrections.front_end_ms_per_1000 * 1.024;
  EXPECT_NEAR(forecast.ttft.mean, ttft, 1e-9 * ttft);
  EXPECT_NEAR(forecast.tpot.mean, tpot, 1e-9 * tpot);
  EXPECT_NEAR(forecast.ttft.p99, ttft, 1e-9 * ttft);
  EXPECT_EQ(forecast.requests, 10);
}

TEST_P(ClosedLoop, BareStepsAreThoseOfTheEngine) {
  std::vector<RankLoad> rank(1);
  rank[0].context = {1, 1024, costs->ContextAttention(1024, 0)};
  const auto prefill = costs->worker().engine().PredictPrefill(1, 1024, 0);
  ASSERT_TRUE(prefill);
  EXPECT_NEAR(costs->ContextMs(rank, {}), *prefill, 1e-9 * *prefill);
  // Sizes that are no nodes lie on lines between nodes.
  rank[0] = {{}, 37, 1999};
  const auto decode = costs->worker().engine().GenerationPass(37, 1, 1999, 1.0);
  ASSERT_TRUE(decode);
  EXPECT_NEAR(costs->DecodeMs(rank, {}), decode->latency_ms, 0.01 * decode->latency_ms);
}

TEST_P(ClosedLoop, MixedStepLiesBetweenTheLargerPartAndTheSum) {
  std::mt19937 random(7);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (const double scale : {0.5, 1.0, 1.4}) {
    for (int i = 0; i < 300; ++i) {
      std::vector<RankLoad> ranks(1);
      const std::int64_t chunks = between(1, 6), tokens = between(1, 3000);
      ranks[0].context = {
          chunks, chunks * tokens,
          static_cast<double>(chunks) *
              costs->ContextAttention(static_cast<double>(tokens), between(0, 4000))};
      ranks[0].decodes = between(1, 512);
      ranks[0].mean_kv = between(2, 12000);
      const StepCorrections corrected{scale, 1, 0.01};
      const double prompts = costs->ContextMs(ranks, corrected);
      const double decodes = costs->DecodeMs(ranks, corrected);
      const double mixed = costs->StepMs(ranks, corrected);
      EXPECT_GE(mixed, std::max(prompts, decodes));
      EXPECT_LE(mixed, prompts + decodes);
    }
  }
}

TEST_P(ClosedLoop, EveryRequestIsServedOnce) {
  for (const std::int64_t concurrency : {1, 7, 64, 300}) {
    const LoadSpec load = Closed(concurrency, 1500, 100);
    const ServingForecast forecast = Run(load);
    EXPECT_EQ(forecast.requests, 10 * concurrency);
    double tokens = 0;
    for (const RequestShape& shape : DrawShapes(load)) tokens += static_cast<double>(shape.osl);
    EXPECT_NEAR(forecast.output_tokens_per_s * forecast.duration_ms / 1000, tokens, 1e-6 * tokens);
    EXPECT_LE(forecast.mean_running, static_cast<double>(concurrency));
  }
}

TEST_P(ClosedLoop, FirstTokensWaitNoLessWithMoreRequestsInFlight) {
  double before = 0;
  for (const std::int64_t concurrency : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    const double ttft = Run(Closed(concurrency, 2048, 256)).ttft.mean;
    EXPECT_GE(ttft, before) << concurrency;
    before = ttft;
  }
}

TEST_P(ClosedLoop, PartsAddUpToTheFirstToken) {
  const ServingForecast f = Run(Closed(48));
  EXPECT_NEAR(
      f.parts.front_end + f.parts.polling + f.parts.queue + f.parts.prefill + f.parts.transfer,
      f.ttft.mean, 1e-9 * f.ttft.mean);
  EXPECT_LE(f.ttft.median, f.ttft.p90);
  EXPECT_LE(f.ttft.p90, f.ttft.p99);
}

TEST_P(ClosedLoop, ReservedMemoryStaysWithinTheCache) {
  const KvSpace small{costs->worker().plan().facts.kv.Bytes(1280) * 9.5, true};
  const ServingForecast tight = Run(Closed(64), small), free = Run(Closed(64));
  EXPECT_GT(tight.peak_kv_share, 0.5);
  EXPECT_LE(tight.peak_kv_share, 1);
  EXPECT_LT(tight.mean_running, 16);
  EXPECT_GT(tight.ttft.mean, free.ttft.mean);
  EXPECT_EQ(tight.requests, 640);
}

TEST_P(ClosedLoop, AMissingSlotCostsOneRequestDurationPerRound) {
  const LoadSpec load = Closed(8, 1024, 512);
  const ServingForecast free = Run(load);
  policy.max_requests = 7;
  const ServingForecast short_of_one = Run(load);
  // Each of the seven slots is handed on once per request duration.
  const double duration = short_of_one.tpot.mean * 460;
  EXPECT_NEAR(short_of_one.ttft.mean - free.ttft.mean, duration / 7, 0.25 * duration / 7);
  EXPECT_LE(short_of_one.mean_running, 7);
}

TEST_P(ClosedLoop, ARunMayEndOnceItsFirstTokensAreSureToBeTooLate) {
  LoadSpec load = Closed(64, 2048, 256);
  const ServingForecast whole = Run(load);
  load.give_up_ttft = 1.001 * whole.ttft.mean;
  EXPECT_EQ(Run(load).ttft.mean, whole.ttft.mean);
  // Only what is certain counts, and constants in decode steps are known at the end: none here.
  corrections = NoCorrections();
  load.give_up_ttft = 0;
  load.give_up_ttft = 0.5 * Run(load).ttft.mean;
  const auto forecast = ForecastClosedLoop(*costs, policy, corrections, kUnlimited, load);
  ASSERT_FALSE(forecast);
  EXPECT_EQ(forecast.error().kind, ErrorKind::kNoFeasibleConfig);
}

TEST_P(ClosedLoop, AnswersDoNotDependOnWhatWasAskedBefore) {
  const ServingForecast fresh = Run(Closed(20));
  Run(Closed(200, 4000, 300));
  const ServingForecast again = Run(Closed(20));
  EXPECT_EQ(fresh.ttft.mean, again.ttft.mean);
  EXPECT_EQ(fresh.tpot.p99, again.tpot.p99);
  LoadSpec other_seed = Closed(20);
  other_seed.seed = 2;
  EXPECT_NE(Run(other_seed).ttft.mean, fresh.ttft.mean);
}

TEST_P(ClosedLoop, OpenArrivalsQueueAsTheRateNearsCapacity) {
  const double capacity = Run(Closed(64)).requests_per_s;
  LoadSpec load = Closed(0);
  load.rate = 0.05 * capacity;
  const ServingForecast idle = Run(load);
  load.rate = 4 * capacity;
  const ServingForecast flooded = Run(load);
  EXPECT_EQ(idle.requests, 512);
  EXPECT_NEAR(idle.requests_per_s, 0.05 * capacity, 0.2 * 0.05 * capacity);
  EXPECT_GT(flooded.ttft.mean, idle.ttft.mean);
  EXPECT_LT(flooded.requests_per_s, 4 * capacity);
}

TEST_P(ClosedLoop, ImpossibleLoadsAreRefused) {
  const auto kind = [&](const LoadSpec& load, const KvSpace& kv = kUnlimited) {
    const auto f = ForecastClosedLoop(*costs, policy, corrections, kv, load);
    return f ? ErrorKind::kInternal : f.error().kind;
  };
  LoadSpec both = Closed(4);
  both.rate = 1;
  EXPECT_EQ(kind(both), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind(Closed(0)), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind(Closed(4, 0, 10)), ErrorKind::kInvalidArgument);
  LoadSpec cached = Closed(4);
  cached.prefix = cached.isl;
  EXPECT_EQ(kind(cached), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind(Closed(4), KvSpace{0, true}), ErrorKind::kDoesNotFit);
  LoadSpec rare;
  rare.rate = 1e-9;
  EXPECT_TRUE(CheckLoad(rare));
  rare.rate = 1e-12;
  EXPECT_EQ(kind(rare), ErrorKind::kInvalidArgument);
  EXPECT_NE(CheckLoad(rare).error().message.find("1e-12"), std::string::npos);
}

TEST_P(ClosedLoop, ImpossiblePoliciesAreRefused) {
  const auto message = [&] {
    const auto f = ForecastClosedLoop(*costs, policy, corrections, kUnlimited, Closed(4));
    if (f || f.error().kind != ErrorKind::kInvalidArgument) return std::string();
    return f.error().message;
  };
  policy.wait_steps = -1;
  EXPECT_NE(message().find("wait steps -1"), std::string::npos);
  policy.wait_steps = 20;
  for (const double share : {-0.1, std::nan(""), double(INFINITY)}) {
    policy.wait_budget_share = share;
    EXPECT_NE(message().find("share of its budget"), std::string::npos) << share;
  }
  policy.wait_budget_share = 0.9;
  EXPECT_EQ(message(), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, ClosedLoop,
                         ::testing::Values(Backend::kTrtllm, Backend::kSglang, Backend::kVllm),
                         [](const auto& info) { return std::string(ToString(info.param)); });

TEST(ClosedLoopPolling, RareLooksDelayFirstTokensOnly) {
  const auto costs = Dense(Backend::kSglang);
  ASSERT_NE(costs, nullptr);
  BatchPolicy policy = DefaultBatchPolicy(Backend::kSglang, costs->worker().system(), 8, 1024);
  const auto eager = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(8));
  policy.poll_interval = 30;
  const auto rare = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(8));
  ASSERT_TRUE(eager && rare);
  EXPECT_LE(eager->parts.polling, eager->tpot.p99);
  EXPECT_GT(rare->parts.polling, 5 * rare->tpot.mean);
  EXPECT_LT(rare->parts.polling, 30 * rare->tpot.p99);
}

TEST(ClosedLoopWaiting, PromptsWaitForCompanyButNotForEver) {
  const auto costs = Dense(Backend::kTrtllm);
  ASSERT_NE(costs, nullptr);
  BatchPolicy policy = DefaultBatchPolicy(Backend::kTrtllm, costs->worker().system(), 16, 1024);
  const auto at_once = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(16));
  policy.wait_steps = 20;
  policy.wait_budget_share = 0.9;
  const auto waiting = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(16));
  // Reached by one prompt: nothing waits.
  policy.wait_budget_share = 0.05;
  const auto easy = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(16));
  ASSERT_TRUE(at_once && waiting && easy);
  EXPECT_EQ(easy->ttft.mean, at_once->ttft.mean);
  const double waited = waiting->parts.queue - at_once->parts.queue;
  EXPECT_GT(waited, 10 * waiting->tpot.mean);
  EXPECT_LT(waited, 21 * waiting->tpot.p99);
  EXPECT_LT(waiting->context_step_share, at_once->context_step_share);
}

// A prompt longer than a step's tokens is cut; its rest does not wait for company.
TEST(ClosedLoopWaiting, PromptsThatHaveBegunGoOn) {
  const auto costs = Dense(Backend::kTrtllm);
  ASSERT_NE(costs, nullptr);
  BatchPolicy policy = DefaultBatchPolicy(Backend::kTrtllm, costs->worker().system(), 2, 1024);
  policy.token_budget = 700;
  const auto at_once = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(2));
  policy.wait_steps = 20;
  policy.wait_budget_share = 0.9;
  const auto waiting = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(2));
  ASSERT_TRUE(at_once && waiting);
  EXPECT_NEAR(waiting->parts.prefill, at_once->parts.prefill, waiting->tpot.mean);
  // Two of these prompts, or one, are enough tokens at once.
  EXPECT_NEAR(waiting->parts.queue, at_once->parts.queue, waiting->tpot.mean);
  policy.wait_budget_share = 1.9;
  const auto longer = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(2));
  ASSERT_TRUE(longer);
  EXPECT_LT(longer->parts.prefill, at_once->parts.prefill + 2 * longer->tpot.mean);
  EXPECT_GT(longer->parts.queue, at_once->parts.queue + 5 * longer->tpot.mean);
}

TEST(ClosedLoopWaiting, RecipesSayWhenPromptsWait) {
  SystemSpec system;
  system.name = "b200_sxm";
  system.sm_version = 100;
  RecipeSubject subject{
      Backend::kTrtllm, &system, "meta-llama/Llama-3.1-70B", "fp8", 16, 1024, 1024, 4, 1};
  std::string note;
  EXPECT_EQ(BenchmarkRecipe(subject, &note).wait_steps, 20);
  EXPECT_NE(note.find("prompts wait up to 20 steps"), std::string::npos);
  subject.tp = 8;
  EXPECT_EQ(BenchmarkRecipe(subject).wait_steps, 0);
  subject.tp = 4;
  subject.osl = 8192;
  EXPECT_EQ(BenchmarkRecipe(subject).wait_steps, 0);
}

TEST(ClosedLoopRanks, LockStepWaitsForTheFullestRank) {
  const auto costs = ExpertsOverRanks();
  ASSERT_NE(costs, nullptr);
  std::vector<RankLoad> even(8), uneven(8);
  for (RankLoad& r : even) r = {{}, 8, 2000};
  for (std::size_t i = 0; i < 8; ++i) uneven[i] = {{}, i == 0 ? 36 : 4, 2000};
  EXPECT_GT(costs->StepMs(uneven, {}), costs->StepMs(even, {}));
  // Prompts that come one by one are held until every rank has one, or for a while.
  BatchPolicy policy = DefaultBatchPolicy(Backend::kTrtllm, costs->worker().system(), 64, 1024);
  const auto held = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(64));
  policy.hold_steps = 0;
  const auto at_once = ForecastClosedLoop(*costs, policy, {}, kUnlimited, Closed(64));
  ASSERT_TRUE(held && at_once);
  EXPECT_GT(held->parts.queue, at_once->parts.queue);
  EXPECT_LT(held->context_step_share, at_once->context_step_share);
}

TEST(ClosedLoopPools, PoolsServeEveryRequestAndCountTheTransfer) {
  const auto prefill = Dense(Backend::kTrtllm), decode = Dense(Backend::kTrtllm);
  ASSERT_NE(prefill, nullptr);
  DisaggregatedPools pools;
  pools.prefill = prefill.get();
  pools.decode = decode.get();
  pools.prefill_workers = 1;
  pools.decode_workers = 2;
  pools.decode_kv = kUnlimited;
  ServingCorrections corrections;
  const LoadSpec load = Closed(32, 2000, 200);
  const auto bare = ForecastDisaggregated(pools, corrections, load);
  corrections.transfer_ms_per_1000 = 5;
  const auto with_transfer = ForecastDisaggregated(pools, corrections, load);
  ASSERT_TRUE(bare && with_transfer);
  EXPECT_EQ(bare->requests, 320);
  EXPECT_EQ(bare->parts.transfer, 0);
  EXPECT_NEAR(with_transfer->parts.transfer, 5 * 1.8, 0.2);
  double tokens = 0;
  for (const RequestShape& shape : DrawShapes(load)) tokens += static_cast<double>(shape.osl);
  EXPECT_NEAR(bare->output_tokens_per_s * bare->duration_ms / 1000, tokens, 1e-6 * tokens);
  // Twice the prefill workers halve the queue, roughly.
  pools.prefill_workers = 2;
  const auto wider = ForecastDisaggregated(pools, {}, load);
  ASSERT_TRUE(wider);
  EXPECT_LT(wider->parts.queue, bare->parts.queue);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{65537}, INT64_MAX}) {
    for (std::int64_t* workers : {&pools.prefill_workers, &pools.decode_workers}) {
      *workers = count;
      const auto refused = ForecastDisaggregated(pools, {}, load);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_NE(refused.error().message.find(std::to_string(count)), std::string::npos);
      EXPECT_NE(refused.error().message.find("65536"), std::string::npos);
      *workers = 1;
    }
  }
}

TEST(ClosedLoopPools, DecodeWorkersReserveNoMoreThanTheirCache) {
  const auto prefill = Dense(Backend::kTrtllm), decode = Dense(Backend::kTrtllm);
  ASSERT_NE(prefill, nullptr);
  DisaggregatedPools pools;
  pools.prefill = prefill.get();
  pools.decode = decode.get();
  pools.decode_workers = 2;
  pools.decode_kv = {decode->worker().plan().facts.kv.Bytes(1200) * 5.5, true};
  const auto tight = ForecastDisaggregated(pools, {}, Closed(32, 1000, 200));
  pools.decode_kv = kUnlimited;
  const auto free = ForecastDisaggregated(pools, {}, Closed(32, 1000, 200));
  ASSERT_TRUE(tight && free);
  EXPECT_GT(tight->peak_kv_share, 0.5);
  EXPECT_LE(tight->peak_kv_share, 1);
  EXPECT_LE(tight->mean_running, 12);
  EXPECT_GT(free->mean_running, tight->mean_running);
  EXPECT_EQ(tight->requests, 320);
}

TEST(ClosedLoopPools, OneRequestAtATimeIsPrefillTransferThenDecodeWalk) {
  const auto prefill = Dense(Backend::kSglang), decode = Dense(Backend::kSglang);
  ASSERT_NE(prefill, nullptr);
  DisaggregatedPools pools;
  pools.prefill = prefill.get();
  pools.decode = decode.get();
  pools.prefill_policy = DefaultBatchPolicy(Backend::kSglang, decode->worker().system(), 1, 1024);
  pools.decode_kv = kUnlimited;
  const ServingCorrections c = DefaultCorrections(Backend::kSglang, true);
  LoadSpec load = Closed(1);
  load.shortest = 1;
  const auto forecast = ForecastDisaggregated(pools, c, load);
  ASSERT_TRUE(forecast);
  std::vector<RankLoad> rank(1);
  rank[0].context = {1, load.isl, prefill->ContextAttention(1024, 0)};
  double decoded = 0;
  const double prompt = prefill->StepMs(rank, c.step);
  for (std::int64_t done = 0; done < load.osl - 1;) {
    const std::int64_t jump = std::min<std::int64_t>(64, load.osl - 1 - done);
    rank[0] = {{}, 1, static_cast<double>(load.isl + 1 + done)};
    decoded += static_cast<double>(jump) * decode->DecodeMs(rank, c.step);
    done += jump;
  }
  const double ttft =
      prompt + c.first_token_ms + (c.transfer_ms_per_1000 + c.front_end_ms_per_1000) * 1.024;
  EXPECT_NEAR(forecast->ttft.mean, ttft, 1e-9 * ttft);
  EXPECT_NEAR(forecast->tpot.mean, decoded / static_cast<double>(load.osl - 1),
              1e-9 * forecast->tpot.mean);
  EXPECT_NEAR(forecast->mean_latency_ms, ttft + decoded, 1e-9 * forecast->mean_latency_ms);
}

TEST(ClosedLoopPools, APrefillBatchLimitsThePromptsOfAStep) {
  const auto prefill = Dense(Backend::kTrtllm), decode = Dense(Backend::kTrtllm);
  ASSERT_NE(prefill, nullptr);
  DisaggregatedPools pools;
  pools.prefill = prefill.get();
  pools.decode = decode.get();
  pools.decode_kv = kUnlimited;
  const auto free = ForecastDisaggregated(pools, {}, Closed(16, 1000, 200));
  pools.prefill_policy.max_requests = 1;
  const auto one = ForecastDisaggregated(pools, {}, Closed(16, 1000, 200));
  ASSERT_TRUE(free && one);
  EXPECT_GT(one->context_step_share, free->context_step_share);
}

TEST(BenchmarkLoad, SummariesAreMeanAndPercentiles) {
  std::vector<double> values = {5, 1, 4, 2, 3};
  const Distribution five = Summarise(values);
  EXPECT_EQ(five.mean, 3);
  EXPECT_EQ(five.median, 3);
  EXPECT_NEAR(five.p90, 4.6, 1e-12);
  EXPECT_NEAR(five.p99, 4.96, 1e-12);
  std::mt19937 random(3);
  for (const std::size_t n : {1U, 2U, 10U, 101U, 1000U}) {
    std::vector<double> some(n);
    for (double& v : some) v = std::uniform_real_distribution<double>(0, 9)(random);
    std::vector<double> sorted = some;
    std::ranges::sort(sorted);
    const Distribution d = Summarise(some);
    EXPECT_NEAR(d.median, SortedQuantile(sorted, 0.5), 1e-12) << n;
    EXPECT_NEAR(d.p90, SortedQuantile(sorted, 0.9), 1e-12) << n;
    EXPECT_NEAR(d.p99, SortedQuantile(sorted, 0.99), 1e-12) << n;
  }
}

TEST(BenchmarkLoad, LengthsFollowTheProtocolAndTheSeed) {
  LoadSpec load = Closed(100, 1000, 500);
  const auto shapes = DrawShapes(load);
  ASSERT_EQ(shapes.size(), 1000U);
  double isl = 0, osl = 0;
  for (const RequestShape& s : shapes) {
    EXPECT_GE(s.isl, 800);
    EXPECT_LE(s.isl, 1000);
    EXPECT_GE(s.osl, 400);
    EXPECT_LE(s.osl, 500);
    isl += static_cast<double>(s.isl);
    osl += static_cast<double>(s.osl);
  }
  EXPECT_NEAR(isl / 1000, 900, 6);
  EXPECT_NEAR(osl / 1000, 450, 3);
  // The first draws of seed 1, the same on every platform.
  EXPECT_EQ(shapes[0].isl, 913);
  EXPECT_EQ(shapes[0].osl, 475);
  EXPECT_EQ(shapes[1].isl, 995);
  EXPECT_EQ(shapes[1].osl, 444);
  load.seed = 2;
  EXPECT_NE(shapes[0].isl * 1000 + shapes[0].osl,
            DrawShapes(load)[0].isl * 1000 + DrawShapes(load)[0].osl);
}

TEST(Corrections, AreNamedBoundedAndSettable) {
  ServingCorrections corrections = DefaultCorrections(Backend::kSglang, false);
  EXPECT_TRUE(SetCorrection(corrections, "first_token_ms", 12));
  EXPECT_EQ(corrections.first_token_ms, 12);
  EXPECT_TRUE(SetCorrection(corrections, "host_ms_per_layer", 0.5));
  EXPECT_EQ(corrections.step.host_ms_per_layer, 0.5);
  EXPECT_EQ(SetCorrection(corrections, "first_token", 1).error().kind, ErrorKind::kUnknownName);
  for (const double value : {-1.0, 1e308, double(INFINITY), std::nan("")}) {
    EXPECT_EQ(SetCorrection(corrections, "context_scale", value).error().kind,
              ErrorKind::kInvalidArgument)
        << value;
  }
  EXPECT_TRUE(SetCorrection(corrections, "transfer_ms_per_1000", 1e6));
  for (const bool pools : {false, true}) {
    for (const Backend backend : {Backend::kTrtllm, Backend::kSglang, Backend::kVllm}) {
      for (const FittedRange& r : FittedCorrections(backend, pools)) {
        EXPECT_LE(r.low, r.value);
        EXPECT_GE(r.high, r.value);
      }
    }
  }
}

}  // namespace
}  // namespace infercast
