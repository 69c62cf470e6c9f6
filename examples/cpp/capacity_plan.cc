// How to serve a model: what one step costs and why, what fits in memory, and which deployment is
// best on 8 GPUs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "infercast/infercast.hpp"

namespace {

// The value, or the end of the program with the error's message.
template <typename T>
T OrExit(infercast::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", std::string(ToString(result.error().kind)).c_str(),
                 result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

}  // namespace

int main(int argc, char** argv) {
  infercast::ModelOptions model;
  model.model = argc > 1 ? argv[1] : "Qwen/Qwen3-32B";
  model.data.system = argc > 2 ? argv[2] : "h200_sxm";
  model.data.backend = "vllm";
  model.parallelism.tp = 2;

  const infercast::Engine engine = OrExit(infercast::Engine::Compile(model));
  std::printf("%s on %s, %s %s\n", engine.spec().model().c_str(), engine.spec().system().c_str(),
              engine.spec().backend().c_str(), engine.spec().version().c_str());
  std::printf("prefill of 4096 tokens: %.2f ms\n", OrExit(engine.Prefill(1, 4096)));
  std::printf("decode step of 32 requests: %.2f ms\n", OrExit(engine.Decode(32, 4096)));

  infercast::Breakdown step = OrExit(engine.ExplainDecodeStep(32, 4096, 512));
  std::ranges::sort(step, {}, [](const auto& cost) { return -cost.latency_ms; });
  std::printf("where a decode step goes:\n");
  for (std::size_t i = 0; i < step.size() && i < 4; ++i) {
    std::printf("  %-28s %8.3f ms  %s\n", step[i].name.c_str(), step[i].latency_ms,
                step[i].origin.c_str());
  }

  infercast::MemoryOptions memory;
  memory.model = model;
  const infercast::MemoryEstimate estimate = OrExit(infercast::MemoryEstimate::Of(memory));
  std::printf("weights %.1f GiB of %.1f GiB; the KV cache holds %lld tokens\n",
              estimate.weights_gib, estimate.capacity_gib,
              static_cast<long long>(estimate.kv_tokens));

  infercast::SweepOptions sweep;
  sweep.model = model;
  sweep.workload.isl = 4000;
  sweep.workload.osl = 500;
  sweep.total_gpus = 8;
  const infercast::SearchResult found = OrExit(infercast::Sweep(sweep));
  const infercast::Forecast& best = found.Best().best.front();
  std::printf(
      "best on 8 GPUs: %s, %s: %.0f tokens/s per GPU at %.1f ms to the first token, "
      "%.1f ms per token\n",
      found.chosen.c_str(), best.workers.front().parallel.c_str(), best.tokens_per_s_per_gpu,
      best.ttft_ms, best.tpot_ms);
  return 0;
}
