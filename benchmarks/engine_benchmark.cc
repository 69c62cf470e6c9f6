// How fast an engine binds and answers: Qwen3-32B on two H200 under each backend, from measured
// tables. Needs the data ($INFERCAST_SYSTEMS_PATH or the data package).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "engine/spec_binary.h"
#include "engine/spec_json.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "models/model_plan.h"
#include "tables/lane_order.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

struct Setup {
  EngineSpec spec;
  Database database;
};

// From a model's name to an engine description.
Result<EngineSpec> Compile(const Database& database, Backend backend) {
  IC_ASSIGN(const auto roots, ResolveSystemsPaths());
  IC_ASSIGN(const ModelConfig config, LoadModelConfig("Qwen/Qwen3-32B", {ModelConfigPaths(roots)}));
  BuildOptions options;
  options.backend = backend;
  options.layout.tp = 2;
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(config, options));
  AttentionLaneOrders lanes;
  IC_ASSIGN(lanes.context, ResolveLaneOrder(database, TableId::kContextAttention, std::nullopt));
  IC_ASSIGN(lanes.generation,
            ResolveLaneOrder(database, TableId::kGenerationAttention, std::nullopt));
  return CompileEngineSpec(std::move(plan), TargetOf(database), lanes);
}

Result<Setup> Prepare(Backend backend, const std::string& version) {
  IC_ASSIGN(const auto roots, ResolveSystemsPaths());
  DatabaseIdentity identity;
  identity.systems_root = roots.front();
  identity.system = "h200_sxm";
  identity.backend = backend;
  identity.version = version;
  IC_ASSIGN(auto store, TableStore::Open(identity));
  Database database(std::move(store), DatabaseMode::kSilicon, TransferPolicy{}, Behaviour::kNative);
  IC_ASSIGN(EngineSpec spec, Compile(database, backend));
  return Setup{std::move(spec), std::move(database)};
}

Result<Setup> PrepareFor(const benchmark::State& state) {
  switch (state.range(0)) {
    case 0:
      return Prepare(Backend::kTrtllm, "1.3.0rc20");
    case 1:
      return Prepare(Backend::kVllm, "0.24.0");
    default:
      return Prepare(Backend::kSglang, "0.5.14");
  }
}

// A different shape at every call, so that no step was asked before.
std::uint32_t Next(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return state >> 8;
}

void BM_Bind(benchmark::State& state) {
  const auto setup = PrepareFor(state);
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  for (auto _ : state) {
    auto engine = Engine::Bind(setup->spec, setup->database);
    benchmark::DoNotOptimize(engine);
  }
}
// From a model's name to an engine that answers; the tables are loaded.
void BM_Compile(benchmark::State& state) {
  const auto setup = PrepareFor(state);
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  for (auto _ : state) {
    const auto spec = Compile(setup->database, setup->database.backend());
    if (!spec) return state.SkipWithError(spec.error().message.c_str());
    auto engine = Engine::Bind(*spec, setup->database);
    benchmark::DoNotOptimize(engine);
  }
}
BENCHMARK(BM_Compile)->Arg(0)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Bind)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

template <typename Call>
void Steps(benchmark::State& state, Call call) {
  const auto setup = PrepareFor(state);
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  const auto engine = Engine::Bind(setup->spec, setup->database);
  if (!engine) return state.SkipWithError(engine.error().message.c_str());
  std::uint32_t random = 1;
  for (auto _ : state) {
    const auto cost = call(**engine, random);
    if (!cost) return state.SkipWithError(cost.error().message.c_str());
    benchmark::DoNotOptimize(cost);
  }
}

void BM_DecodeStep(benchmark::State& state) {
  Steps(state, [](const Engine& engine, std::uint32_t& random) {
    return engine.DecodeStep(1 + Next(random) % 256, 1 + Next(random) % 8000, 2);
  });
}
BENCHMARK(BM_DecodeStep)->DenseRange(0, 2);

void BM_Prefill(benchmark::State& state) {
  Steps(state, [](const Engine& engine, std::uint32_t& random) {
    return engine.PredictPrefill(1 + Next(random) % 8, 512 + Next(random) % 4000,
                                 Next(random) % 512);
  });
}
BENCHMARK(BM_Prefill)->DenseRange(0, 2);

void BM_MixedStep(benchmark::State& state) {
  Steps(state, [](const Engine& engine, std::uint32_t& random) {
    return engine.MixedStep({.context_tokens = 1 + Next(random) % 8192,
                             .decodes = 1 + Next(random) % 256,
                             .isl = 1 + Next(random) % 8000,
                             .osl = 1000});
  });
}
BENCHMARK(BM_MixedStep)->DenseRange(0, 2);

// 500 generated tokens: sixteen sampled steps.
void BM_StaticBatch(benchmark::State& state) {
  Steps(state, [](const Engine& engine, std::uint32_t& random) {
    return engine.RunStatic(
        {.batch_size = 1 + Next(random) % 64, .isl = 1 + Next(random) % 8000, .osl = 500});
  });
}
BENCHMARK(BM_StaticBatch)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

void BM_ReadJson(benchmark::State& state) {
  const auto setup = PrepareFor(state);
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  const std::string text = WriteEngineSpecJson(setup->spec);
  for (auto _ : state) benchmark::DoNotOptimize(ParseEngineSpecJson(text));
}
BENCHMARK(BM_ReadJson)->Arg(0)->Unit(benchmark::kMicrosecond);

void BM_ReadBinary(benchmark::State& state) {
  const auto setup = PrepareFor(state);
  if (!setup) return state.SkipWithError(setup.error().message.c_str());
  const auto bytes = WriteEngineSpecBinary(setup->spec);
  for (auto _ : state) benchmark::DoNotOptimize(ParseEngineSpecBinary(bytes));
}
BENCHMARK(BM_ReadBinary)->Arg(0)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace infercast
