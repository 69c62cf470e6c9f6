// From a checkpoint's files to a bound engine, for every bundled model: what a program pays before
// its first answer once the tables are cached. Nothing is remembered between the rounds. Needs the
// data ($INFERCAST_SYSTEMS_PATH or the data package).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "models/model_plan.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

Result<Database> OpenDatabase(const std::filesystem::path& root) {
  DatabaseIdentity identity;
  identity.systems_root = root;
  identity.system = "b200_sxm";
  identity.backend = Backend::kSglang;
  identity.version = "0.5.14";
  IC_ASSIGN(auto store, TableStore::Open(identity));
  return Database(std::move(store), DatabaseMode::kHybrid, TransferPolicy{}, Behaviour::kNative);
}

Result<std::shared_ptr<const Engine>> Compile(const ModelConfig& config, const Database& database) {
  BuildOptions options;
  options.backend = Backend::kSglang;
  options.system = "b200_sxm";
  options.layout.tp = 8;
  if (config.IsMoe()) {  // Gemma-4 31B is of that family, though it has no experts
    options.layout.moe_tp = config.num_experts > 0 ? 1 : 8;
    options.layout.moe_ep = config.num_experts > 0 ? 8 : 1;
  }
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(config, options));
  IC_ASSIGN(const EngineSpec spec, CompileEngineSpec(std::move(plan), database));
  return Engine::Bind(spec, database);
}

void Compiles(benchmark::State& state, const std::string& name, const CheckpointSearch& search,
              const Database& database) {
  for (auto _ : state) {
    const auto config = LoadModelConfig(name, search);
    if (!config) return state.SkipWithError(config.error().message.c_str());
    const auto engine = Compile(*config, database);
    if (!engine) return state.SkipWithError(engine.error().message.c_str());
    benchmark::DoNotOptimize(engine);
  }
}

void Parses(benchmark::State& state, const std::string& name, const CheckpointSearch& search) {
  for (auto _ : state) {
    const auto config = LoadModelConfig(name, search);
    if (!config) return state.SkipWithError(config.error().message.c_str());
    benchmark::DoNotOptimize(config);
  }
}

int Run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto roots = ResolveSystemsPaths();
  if (!roots) return fmt::print(stderr, "{}\n", roots.error().message), 1;
  const auto database = OpenDatabase(roots->front());
  if (!database) return fmt::print(stderr, "{}\n", database.error().message), 1;
  CheckpointSearch search{ModelConfigPaths(*roots)};
  search.remember = false;
  for (const std::string& name : BundledModels(search)) {
    benchmark::RegisterBenchmark(("compile/" + name).c_str(), [=, &database](benchmark::State& s) {
      Compiles(s, name, search, *database);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("parse/" + name).c_str(), [=](benchmark::State& s) {
      Parses(s, name, search);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace infercast

int main(int argc, char** argv) { return infercast::Run(argc, argv); }
