// Loads that are not run whole: when waves count as alike, how they are weighted, and how far what
// comes out is from the whole run.
#include "serving/wave_watch.h"

#include <gtest/gtest.h>

#include <memory>

#include "serving/closed_loop.h"
#include "serving/measured_deployment.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

LoadSpec Closed(std::int64_t concurrency, std::int64_t isl, std::int64_t osl) {
  LoadSpec load;
  load.isl = isl;
  load.osl = osl;
  load.concurrency = concurrency;
  return load;
}

// Requests sent until the waves, of that mean time to the first token, are enough; 0: never.
template <typename TtftOf>
std::size_t SentUntilEnough(const LoadSpec& load, const TtftOf& ttft_of) {
  WaveWatch watch(load);
  const auto wave = static_cast<std::size_t>(load.concurrency);
  for (std::size_t i = 0; i < 10 * wave; ++i) {
    const std::size_t sent = std::min(10 * wave, i + 1 + wave);
    watch.First(i, ttft_of(i / wave));
    if (watch.Ended(i, 1000, sent)) return sent;
  }
  return 0;
}

TEST(WaveWatch, WavesThatAreAlikeAreEnough) {
  const auto burst = [](std::size_t wave) { return wave == 0 ? 5000.0 : 100.0; };
  EXPECT_EQ(SentUntilEnough(Closed(2000, 100, 100), burst), 8000U);
  // Few in flight, or a number of requests that was asked for: always whole.
  EXPECT_EQ(SentUntilEnough(Closed(1024, 100, 100), burst), 0U);
  LoadSpec asked = Closed(2000, 100, 100);
  asked.requests = 20000;
  EXPECT_EQ(SentUntilEnough(asked, burst), 0U);
}

TEST(WaveWatch, WavesThatDriftAreRunUntilTheyNoLongerDo) {
  const LoadSpec load = Closed(2000, 100, 100);
  EXPECT_EQ(SentUntilEnough(load, [](std::size_t w) { return 100.0 * static_cast<double>(w); }),
            0U);
  const std::size_t late =
      SentUntilEnough(load, [](std::size_t w) { return w < 4 ? 5000.0 / double(w + 1) : 1000.0; });
  EXPECT_GT(late, 8000U);
  EXPECT_LT(late, 20000U);
}

TEST(WaveWatch, RepeatedValuesCountAsOften) {
  const std::vector<double> values = {9, 1, 5, 7, 3, 8};
  std::vector<double> often = {9, 1, 5, 5, 5, 7, 7, 7, 3, 8};
  const Distribution weighted = Summarise(values, 2, 4, 2);
  EXPECT_DOUBLE_EQ(weighted.mean, Summarise(often).mean);
  EXPECT_EQ(weighted.median, 5);
  EXPECT_EQ(weighted.p90, 8);
  EXPECT_EQ(weighted.p99, 8);
}

class ShortRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    DeploymentRequest request;
    request.model = "Qwen/Qwen3-8B";
    request.system = "h200_sxm";
    request.backend = Backend::kSglang;
    const auto deployment = testing::OpenDeployment(request);
    ASSERT_TRUE(deployment) << deployment.error().message;
    auto worker = (*deployment)->MakeWorker(ParallelLayout());
    ASSERT_TRUE(worker);
    auto prefill = StepCosts::Create(*worker);
    auto decode = StepCosts::Create(*worker);
    ASSERT_TRUE(prefill && decode);
    prefill_ = *prefill;
    decode_ = *decode;
    pools_.prefill = prefill_.get();
    pools_.decode = decode_.get();
    pools_.decode_kv = {0, false};
  }
  ServingForecast Run(const LoadSpec& load) const {
    const auto forecast =
        ForecastDisaggregated(pools_, DefaultCorrections(Backend::kSglang, true), load);
    EXPECT_TRUE(forecast) << forecast.error().message;
    return forecast.value_or(ServingForecast{});
  }

  std::shared_ptr<StepCosts> prefill_, decode_;
  DisaggregatedPools pools_;
};

TEST_F(ShortRuns, AreCloseToTheWholeRun) {
  int shorter = 0;
  for (const auto& [prefills, decodes, isl, osl] :
       {std::array{2, 4, 512, 256}, {4, 4, 128, 128}, {1, 6, 1024, 128}, {8, 4, 256, 512}}) {
    pools_.prefill_workers = prefills;
    pools_.decode_workers = decodes;
    LoadSpec load = Closed(2000, isl, osl);
    const ServingForecast few = Run(load);
    load.requests = RequestsOf(load);
    const ServingForecast all = Run(load);
    EXPECT_EQ(few.requests, all.requests);
    EXPECT_NEAR(few.ttft.mean, all.ttft.mean, 0.02 * all.ttft.mean);
    EXPECT_NEAR(few.ttft.p99, all.ttft.p99, 0.02 * all.ttft.p99);
    EXPECT_NEAR(few.tpot.mean, all.tpot.mean, 0.01 * all.tpot.mean);
    EXPECT_NEAR(few.mean_latency_ms, all.mean_latency_ms, 0.02 * all.mean_latency_ms);
    EXPECT_NEAR(few.output_tokens_per_s, all.output_tokens_per_s, 0.02 * all.output_tokens_per_s);
    EXPECT_NEAR(few.mean_running, all.mean_running, 0.02 * all.mean_running);
    shorter += few.context_step_share != all.context_step_share ? 1 : 0;
    // What was asked before changes nothing.
    load.requests = 0;
    const ServingForecast again = Run(load);
    EXPECT_EQ(few.ttft.mean, again.ttft.mean);
    EXPECT_EQ(few.tpot.p99, again.tpot.p99);
  }
  EXPECT_GT(shorter, 0);
}

// Where KV caches wait for room, only those in it decode.
TEST_F(ShortRuns, DecodeNoMoreThanTheirCacheHolds) {
  const double request = decode_->worker().plan().facts.kv.Bytes(512 + 128);
  pools_.decode_kv = {24 * request, true};
  pools_.decode_kv_output_share = 1;
  pools_.prefill_workers = 8;
  pools_.decode_workers = 2;
  LoadSpec load = Closed(2000, 512, 128);
  const ServingForecast few = Run(load);
  load.requests = RequestsOf(load);
  const ServingForecast all = Run(load);
  EXPECT_NE(few.context_step_share, all.context_step_share);  // waves were left out
  EXPECT_GT(all.mean_running, 30);
  EXPECT_LT(all.mean_running, 64);  // two caches, requests of 0.8 to 1 of the nominal length
  EXPECT_NEAR(few.mean_running, all.mean_running, 0.02 * all.mean_running);
  EXPECT_NEAR(few.tpot.mean, all.tpot.mean, 0.01 * all.tpot.mean);
}

TEST_F(ShortRuns, FewInFlightAreTheWholeRunExactly) {
  pools_.decode_workers = 2;
  LoadSpec load = Closed(256, 512, 256);
  const ServingForecast implied = Run(load);
  load.requests = 2560;
  const ServingForecast asked = Run(load);
  EXPECT_EQ(implied.ttft.mean, asked.ttft.mean);
  EXPECT_EQ(implied.tpot.mean, asked.tpot.mean);
  EXPECT_EQ(implied.duration_ms, asked.duration_ms);
}

}  // namespace
}  // namespace infercast
