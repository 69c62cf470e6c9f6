// Calls of the public interface: what a scheduler or a sweep pays for one question. Needs the data
// package.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "infercast/infercast.hpp"

namespace {

using infercast::Engine;

const Engine& Qwen() {
  static const Engine engine = [] {
    infercast::ModelOptions options;
    options.model = "Qwen/Qwen3-32B";
    options.data.system = "h200_sxm";
    options.data.backend = "vllm";
    options.parallelism.tp = 2;
    auto compiled = Engine::Compile(options);
    if (!compiled) {
      std::cerr << compiled.error().message << '\n';
      std::exit(1);
    }
    return *std::move(compiled);
  }();
  return engine;
}

// Numbers that differ from call to call, so that nothing is predicted for free.
std::vector<std::uint32_t> Sizes(std::size_t count, std::uint32_t low, std::uint32_t high,
                                 std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::uint32_t> size(low, high);
  std::vector<std::uint32_t> sizes(count);
  for (std::uint32_t& s : sizes) s = size(random);
  return sizes;
}
constexpr std::size_t kShapes = 4096;

void ForwardPassOfDecodes(benchmark::State& state) {
  const auto requests = Sizes(kShapes, 1, 256, 1);
  const auto length = Sizes(kShapes, 64, 8192, 2);
  std::size_t i = 0;
  for (auto _ : state) {
    i = (i + 1) % kShapes;
    const infercast::ScheduledRequests rank{.num_decode_requests = requests[i],
                                            .sum_decode_kv_tokens = requests[i] * length[i]};
    benchmark::DoNotOptimize(Qwen().ForwardPass(rank));
  }
}
BENCHMARK(ForwardPassOfDecodes);

void ForwardPassWithPrefill(benchmark::State& state) {
  const auto requests = Sizes(kShapes, 1, 256, 1);
  const auto length = Sizes(kShapes, 64, 8192, 2);
  const auto prefill = Sizes(kShapes, 16, 8192, 3);
  std::size_t i = 0;
  for (auto _ : state) {
    i = (i + 1) % kShapes;
    const infercast::ScheduledRequests rank{.num_prefill_requests = 1,
                                            .sum_prefill_tokens = prefill[i],
                                            .num_decode_requests = requests[i],
                                            .sum_decode_kv_tokens = requests[i] * length[i]};
    benchmark::DoNotOptimize(Qwen().ForwardPass(rank));
  }
}
BENCHMARK(ForwardPassWithPrefill);

void CorrectedForwardPass(benchmark::State& state) {
  auto model = infercast::OnlineModel::FromEngine(Qwen()).value();
  const infercast::ForwardPassMetrics seen{
      .scheduled = {.num_decode_requests = 32, .sum_decode_kv_tokens = 64000}, .wall_time_s = 0.02};
  for (int i = 0; i < 64; ++i) {
    if (!model.Observe(std::span(&seen, 1)))
      return state.SkipWithError("an observation is refused");
  }
  for (auto _ : state) benchmark::DoNotOptimize(model.Estimate(seen));
}
BENCHMARK(CorrectedForwardPass);

void Decode(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Qwen().Decode(32, 2048));
}
BENCHMARK(Decode);

// The shapes of benchmarks/python_calls.py.
void DecodeMillionShapes(benchmark::State& state) {
  constexpr std::size_t kMillion = 1'000'000;
  std::vector<std::uint32_t> batch(kMillion), isl(kMillion);
  const std::vector<std::uint32_t> osl(kMillion, 2);
  for (std::uint32_t i = 0; i < kMillion; ++i) {
    batch[i] = 1 + i * 7919u % 256;
    isl[i] = 64 + i * 104729u % 8128;
  }
  std::vector<double> ms(kMillion);
  for (auto _ : state) benchmark::DoNotOptimize(Qwen().DecodeBatch(batch, isl, osl, ms));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kMillion));
}
BENCHMARK(DecodeMillionShapes)->Unit(benchmark::kMillisecond);

}  // namespace
