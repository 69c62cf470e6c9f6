// The public C++ interface over measured tables; includes public headers only. Needs the data
// package.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "infercast/infercast.hpp"

namespace infercast {
namespace {

ModelOptions Qwen() {
  ModelOptions options;
  options.model = "Qwen/Qwen3-32B";
  options.data.system = "h200_sxm";
  options.data.backend = "vllm";
  options.data.version = "0.24.0";
  options.data.behaviour = "reference";
  options.parallelism.tp = 2;
  return options;
}

Engine Compiled(const ModelOptions& options = Qwen()) {
  Result<Engine> engine = Engine::Compile(options);
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

TEST(EngineApi, AnswersKnownLatencies) {
  const Engine engine = Compiled();
  EXPECT_NEAR(engine.Prefill(4, 2048, 512).value(), 329.01270386905037, 1e-9);
  EXPECT_NEAR(engine.Decode(32, 2048).value(), 13.456241041371072, 1e-9);
  StaticShape shape;
  shape.batch_size = 8;
  shape.isl = 4000;
  shape.osl = 500;
  const StaticCost batch = engine.Static(shape).value();
  EXPECT_NEAR(batch.context.latency_ms, 1721.8662422437983, 1e-9);
  EXPECT_NEAR(batch.generation.latency_ms, 5959.2086653939505, 1e-8);
  MixedShape step;
  step.context_tokens = 1024;
  step.decodes = 15;
  step.isl = 4000;
  step.osl = 500;
  step.prefix = 1000;
  EXPECT_NEAR(engine.MixedStep(step)->total_ms(), 66.1695385972306, 1e-9);
  EXPECT_NEAR(engine.DecodeStep(16, 4000, 500)->latency_ms, 13.460777688859533, 1e-9);
}

TEST(EngineApi, BreakdownsAddUpAndTellOrigins) {
  const Engine engine = Compiled();
  const Breakdown step = engine.ExplainDecodeStep(16, 4000, 500).value();
  ASSERT_FALSE(step.empty());
  double sum = 0;
  bool measured = false;
  for (const OperatorCost& cost : step) {
    EXPECT_FALSE(cost.name.empty());
    sum += cost.latency_ms;
    measured = measured || cost.version == "0.24.0";
  }
  EXPECT_NEAR(sum, engine.DecodeStep(16, 4000, 500)->latency_ms, 1e-9);
  EXPECT_TRUE(measured);
}

TEST(EngineApi, SpecsTravelAsBytesAndJson) {
  const Engine engine = Compiled();
  const EngineSpec& spec = engine.spec();
  EXPECT_EQ(spec.model(), "Qwen/Qwen3-32B");
  EXPECT_EQ(spec.version(), "0.24.0");
  EXPECT_GT(spec.num_context_operators(), 5u);
  const EngineSpec from_bytes = EngineSpec::FromBytes(spec.ToBytes()).value();
  const EngineSpec from_json = EngineSpec::FromJson(spec.ToJson()).value();
  EXPECT_EQ(from_bytes, spec);
  EXPECT_EQ(from_json, spec);
  const Engine again = Engine::FromSpec(from_bytes, "", "reference").value();
  EXPECT_EQ(again.Decode(7, 3001).value(), engine.Decode(7, 3001).value());
  const PerfDatabase database = PerfDatabase::Open(Qwen().data).value();
  EXPECT_EQ(database.version(), "0.24.0");
  EXPECT_EQ(database.backend(), "vllm");
  EXPECT_GT(database.gpu_memory_bytes(), std::int64_t{100} << 30);
  const Engine bound = Engine::Bind(spec, database).value();
  EXPECT_EQ(bound.Decode(7, 3001).value(), engine.Decode(7, 3001).value());
}

TEST(EngineApi, BatchesAnswerAsSingleCallsDo) {
  const Engine engine = Compiled();
  const std::vector<std::uint32_t> batch{1, 32, 7, 0};
  const std::vector<std::uint32_t> isl{128, 2048, 3001, 0};
  const std::vector<std::uint32_t> osl{2, 2, 130, 2};
  std::vector<double> ms(batch.size());
  const std::vector<ShapeError> errors = engine.DecodeBatch(batch, isl, osl, ms).value();
  std::size_t failed = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Result<double> alone = engine.Decode(batch[i], isl[i], osl[i]);
    if (alone) {
      EXPECT_EQ(ms[i], *alone) << i;
    } else {
      ASSERT_LT(failed, errors.size());
      EXPECT_TRUE(std::isnan(ms[i]));
      EXPECT_EQ(errors[failed].index, i);
      EXPECT_EQ(errors[failed++].error, alone.error());
    }
  }
  EXPECT_EQ(failed, errors.size());
  std::vector<double> short_output(2);
  EXPECT_EQ(engine.DecodeBatch(batch, isl, osl, short_output).error().kind,
            ErrorKind::kInvalidArgument);
}

TEST(EngineApi, ForwardPassTakesTheSlowestRank) {
  const Engine engine = Compiled();
  const ScheduledRequests small{.num_decode_requests = 4, .sum_decode_kv_tokens = 4000};
  const ScheduledRequests large{.num_prefill_requests = 1,
                                .sum_prefill_tokens = 2000,
                                .num_decode_requests = 30,
                                .sum_decode_kv_tokens = 60000};
  const double a = engine.ForwardPass(small).value();
  const double b = engine.ForwardPass(large).value();
  EXPECT_GT(b, a);
  const ScheduledRequests both[] = {small, large};
  EXPECT_EQ(engine.ForwardPass(both).value(), b);
  EXPECT_EQ(engine.ForwardPass(ScheduledRequests{.sum_prefill_tokens = 5}).error().kind,
            ErrorKind::kInvalidForwardPassMetrics);
  std::vector<double> ms(2);
  EXPECT_TRUE(engine.ForwardPassBatch(both, ms)->empty());
  EXPECT_EQ(ms, (std::vector<double>{a, b}));
}

// Also run under ThreadSanitizer (preset tsan).
TEST(EngineApi, FourThreadsGetIdenticalAnswers) {
  const Engine engine = Compiled();
  constexpr std::size_t kShapes = 400;
  std::vector<std::vector<double>> answers(4, std::vector<double>(kShapes));
  {
    std::vector<std::jthread> threads;
    for (std::vector<double>& mine : answers) {
      threads.emplace_back([&engine, &mine] {
        for (std::uint32_t i = 0; i < kShapes; ++i) {
          mine[i] =
              engine.Decode(1 + i % 97, 100 + 37 * i).value_or(-1) +
              engine.Prefill(1 + i % 5, 50 + 11 * i).value_or(-1) +
              engine.MixedStep({.context_tokens = 64 + i, .decodes = i, .isl = 512, .osl = 64})
                  ->total_ms();
        }
      });
    }
  }
  for (const std::vector<double>& mine : answers) EXPECT_EQ(mine, answers.front());
  EXPECT_GT(answers.front().front(), 0);
}

TEST(EngineApi, ErrorsKeepTheirKinds) {
  ModelOptions options = Qwen();
  options.data.system = "h200_sxn";
  EXPECT_EQ(Engine::Compile(options).error().kind, ErrorKind::kUnknownName);
  options = Qwen();
  options.model = "Qwen3-32C";
  EXPECT_EQ(Engine::Compile(options).error().kind, ErrorKind::kUnknownName);
  options = Qwen();
  options.data.backend = "vlm";
  const Error backend = Engine::Compile(options).error();
  EXPECT_EQ(backend.kind, ErrorKind::kUnknownName);
  EXPECT_NE(backend.message.find("vllm"), std::string::npos) << backend.message;
  options = Qwen();
  options.parallelism.tp = 3;
  EXPECT_EQ(Engine::Compile(options).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(EngineSpec::FromBytes(std::vector<std::uint8_t>{1, 2}).error().kind,
            ErrorKind::kEngineSpec);
  EXPECT_EQ(ToString(ErrorKind::kPerfDatabase), "perf_database");
}

TEST(EngineApi, ExpertsAreSpreadWholeUnlessAskedOtherwise) {
  ModelOptions options = Qwen();
  options.model = "Qwen/Qwen3-235B-A22B";
  options.parallelism = {.tp = 4};
  const Engine whole = Compiled(options);
  options.parallelism.moe_ep = 4;
  const Engine explicitly = Compiled(options);
  EXPECT_EQ(whole.spec(), explicitly.spec());
  EXPECT_NEAR(whole.Decode(32, 2048).value(), 31.510611451544825, 1e-9);
}

TEST(DatabaseApi, ListsSystemsVersionsAndModels) {
  const auto systems = PerfDatabase::Systems().value();
  EXPECT_NE(std::ranges::find(systems, "h200_sxm"), systems.end());
  EXPECT_FALSE(PerfDatabase::Versions("h200_sxm", "vllm")->empty());
  EXPECT_EQ(PerfDatabase::Versions("h999", "vllm").error().kind, ErrorKind::kUnknownName);
  const auto models = PerfDatabase::Models().value();
  EXPECT_NE(std::ranges::find(models, "Qwen/Qwen3-32B"), models.end());
}

TEST(MemoryApi, PartsAddUpAndTheBatchThatFillsTheCacheFits) {
  MemoryOptions options;
  options.model = Qwen();
  options.batch_size = 16;
  options.max_num_tokens = 8192;
  const MemoryEstimate m = MemoryEstimate::Of(options).value();
  EXPECT_NEAR(
      m.weights_gib + m.activations_gib + m.kvcache_gib + m.communication_gib + m.runtime_gib,
      m.total_gib, 1e-9);
  EXPECT_TRUE(m.fits);
  EXPECT_GT(m.kv_tokens, 16 * 5000);
  // 64 layers, 4 KV heads a GPU of 128, keys and values, two bytes.
  EXPECT_EQ(m.kv_bytes_per_token, 64 * 4 * 128 * 2 * 2);
  options.batch_size = 1 + m.kv_tokens / 5000;
  EXPECT_FALSE(MemoryEstimate::Of(options)->fits);
  options.batch_size = m.kv_tokens / 5000;
  EXPECT_TRUE(MemoryEstimate::Of(options)->fits);
  options.batch_size = 0;
  EXPECT_EQ(MemoryEstimate::Of(options).error().kind, ErrorKind::kInvalidArgument);
}

// Recurrent state is of a sequence, not of its tokens: both figures together are the cache.
TEST(MemoryApi, TellsWhatATokenAddsFromWhatASequenceTakes) {
  MemoryOptions options;
  options.model = Qwen();
  for (const char* behaviour : {"native", "reference"}) {
    options.model.data.behaviour = behaviour;
    for (const char* model : {"Qwen/Qwen3.5-27B", "nvidia/Nemotron-H-56B-Base-8K"}) {
      options.model.model = model;
      const auto bytes = [&](std::int64_t length) {
        options.max_seq_len = length;
        return MemoryEstimate::Of(options)->kvcache_gib * 1073741824;
      };
      const MemoryEstimate m = MemoryEstimate::Of(options).value();
      // The reference counts no state of Mamba layers.
      const bool counted =
          std::string(behaviour) == "native" || std::string(model).starts_with("Qwen");
      EXPECT_EQ(m.kv_bytes_per_sequence > 1 << 20, counted) << model << behaviour;
      const auto per_token = static_cast<double>(m.kv_bytes_per_token);
      EXPECT_NEAR((bytes(8192) - bytes(4096)) / 4096, per_token, 1e-3) << model << behaviour;
      EXPECT_NEAR(bytes(4096) - 4096 * per_token, static_cast<double>(m.kv_bytes_per_sequence), 1)
          << model << behaviour;
    }
  }
  // 16 of 64 layers attend to all tokens; 2 KV heads a GPU of 256, keys and values, two bytes.
  options.model.model = "Qwen/Qwen3.5-27B";
  EXPECT_EQ(MemoryEstimate::Of(options)->kv_bytes_per_token, 16 * 2 * 256 * 2 * 2);
  options.model.model = "Qwen/Qwen3-32B";
  EXPECT_EQ(MemoryEstimate::Of(options)->kv_bytes_per_sequence, 0);
}

TEST(OnlineApi, LearnsASteadyRatio) {
  const Engine engine = Compiled();
  OnlineModel model = OnlineModel::FromEngine(engine).value();
  EXPECT_EQ(model.Diagnostics().source, "aic");
  const ForwardPassMetrics step{
      .scheduled = {.num_decode_requests = 32, .sum_decode_kv_tokens = 64000}};
  const double native = engine.ForwardPass(step.scheduled).value();
  EXPECT_EQ(model.Estimate(step).value(), native);
  ForwardPassMetrics seen = step;
  seen.wall_time_s = 1.25 * native / 1e3;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(model.Observe(std::span(&seen, 1)));
  EXPECT_NEAR(model.Estimate(step)->value(), 1.25 * native, 1e-9);
  EXPECT_EQ(model.Diagnostics().source, "aic_with_correction");
  EXPECT_EQ(model.Diagnostics().retained_observations, 8u);
  EXPECT_NEAR(model.Diagnostics().mean_correction.value(), 1.25, 1e-9);

  OnlineModel regression = OnlineModel::FromRegression().value();
  EXPECT_EQ(regression.Estimate(step).value(), std::nullopt);
  EXPECT_EQ(regression.Diagnostics().readiness, "insufficient_data");
  OnlineOptions wrong;
  wrong.bucket_count = 15;
  EXPECT_EQ(OnlineModel::FromRegression(wrong).error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST(ForecastApi, TellsWhatBoundsOperatorsWhenAsked) {
  EstimateOptions options;
  options.model = Qwen();
  options.batch_size = 32;
  const Forecast plain = Estimate(options).value();
  options.bounds = true;
  const Forecast told = Estimate(options).value();
  ASSERT_EQ(told.phases.size(), plain.phases.size());
  bool weights = false, links = false;
  for (std::size_t p = 0; p < told.phases.size(); ++p) {
    for (std::size_t i = 0; i < told.phases[p].operators.size(); ++i) {
      const OperatorCost& op = told.phases[p].operators[i];
      EXPECT_EQ(op.latency_ms, plain.phases[p].operators[i].latency_ms);
      EXPECT_EQ(plain.phases[p].operators[i].bound, "");
      EXPECT_NE(op.bound, "") << op.name;
      if (op.name == "generation_gate_ffn1_gemm") {
        weights = true;
        EXPECT_EQ(op.bound, "bandwidth");
        EXPECT_EQ(op.count, 64);
        EXPECT_GT(op.attained, 0.5);
        EXPECT_LT(op.attained, 1.0);
      }
      links |= op.bound == "communication";
    }
  }
  EXPECT_TRUE(weights);
  EXPECT_TRUE(links);
}

TEST(ForecastApi, IsScoredByARunNativelyAndByTheFormulaElsewhere) {
  EstimateOptions options;
  options.model = Qwen();
  options.batch_size = 32;
  const Forecast reference = Estimate(options).value();
  EXPECT_EQ(reference.scored_by, "formula");
  EXPECT_FALSE(reference.serving);
  EXPECT_EQ(reference.ttft_ms, reference.formula.ttft_ms);

  options.model.data.behaviour = "native";
  const Forecast native = Estimate(options).value();
  EXPECT_EQ(native.scored_by, "closed_loop");
  ASSERT_TRUE(native.serving);
  const ServingForecast& run = *native.serving;
  EXPECT_EQ(run.concurrency, 32);
  EXPECT_EQ(run.requests, 320);
  EXPECT_EQ(native.ttft_ms, run.ttft_ms.mean);
  EXPECT_EQ(native.tpot_ms, run.tpot_ms.mean);
  // Of the formula, native mixed steps alone differ: here a pass over all tokens would cost more
  // than the prompts' and the decodes' apart (tests/api/mixed_bounds_test.cc).
  EXPECT_LT(native.formula.ttft_ms, reference.ttft_ms);
  EXPECT_GT(native.formula.ttft_ms, reference.ttft_ms * 0.97);
  EXPECT_NE(native.formula.ttft_ms, native.ttft_ms);
  const FirstTokenParts& parts = run.ttft_parts_ms;
  EXPECT_NEAR(parts.front_end + parts.polling + parts.queue + parts.prefill + parts.transfer,
              run.ttft_ms.mean, 1e-6);
  EXPECT_LT(run.ttft_interval_ms.low, run.ttft_ms.mean);
  EXPECT_GT(run.tpot_interval_ms.high, run.tpot_ms.mean);
  EXPECT_LE(run.ttft_ms.median, run.ttft_ms.p90);
  EXPECT_LE(run.ttft_ms.p90, run.ttft_ms.p99);

  options.score = "formula";
  const Forecast formula = Estimate(options).value();
  EXPECT_EQ(formula.scored_by, "formula");
  EXPECT_FALSE(formula.serving);
  EXPECT_EQ(formula.tpot_ms, native.formula.tpot_ms);
  // A run that is asked for stands beside.
  options.load.rate = 1;
  options.load.num_requests = 40;
  const Forecast beside = Estimate(options).value();
  EXPECT_EQ(beside.tpot_ms, formula.tpot_ms);
  ASSERT_TRUE(beside.serving);
  EXPECT_EQ(beside.serving->rate, 1);
  EXPECT_EQ(beside.serving->requests, 40);
}

TEST(ForecastApi, RefusesScoresAndLoadsThatMeanNothing) {
  EstimateOptions options;
  options.model = Qwen();
  options.batch_size = 32;
  options.score = "closed-loop";
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kInvalidArgument);  // reference behaviour
  options.model.data.behaviour = "native";
  options.score = "closed";
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kUnknownName);
  options.score.clear();
  options.load.concurrency = 2.5;
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kInvalidArgument);
  options.load = {};
  options.load.corrections = {"no_such=1"};
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kUnknownName);
  options.load = {};
  options.load.concurrency = 4;
  options.mode = "static";
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kInvalidArgument);
  options.load = {};
  const Forecast fixed = Estimate(options).value();
  EXPECT_EQ(fixed.scored_by, "formula");
  EXPECT_NE(fixed.notes.front().find("scored by the formula"), std::string::npos);
}

TEST(ForecastApi, SearchesRankByRunsUnlessAskedOtherwise) {
  SweepOptions options;
  options.model = Qwen();
  options.model.data.behaviour = "native";
  options.modes = {"agg"};
  options.total_gpus = 4;
  const SearchResult runs = Sweep(options).value();
  for (const Forecast& f : runs.Best().best) {
    EXPECT_EQ(f.scored_by, "closed_loop");
    ASSERT_TRUE(f.serving);
    EXPECT_EQ(f.ttft_ms, f.serving->ttft_ms.mean);
    EXPECT_NE(f.ttft_ms, f.formula.ttft_ms);
    if (!runs.Best().exceeded) {
      EXPECT_LE(f.ttft_ms, options.ttft_ms);
    }
  }
  options.score = "formula";
  const SearchResult formula = Sweep(options).value();
  for (const Forecast& f : formula.Best().best) {
    EXPECT_EQ(f.scored_by, "formula");
    EXPECT_FALSE(f.serving);
    EXPECT_EQ(f.ttft_ms, f.formula.ttft_ms);
  }
}

TEST(OnlineApi, FallsBackToARegressionForUnknownModels) {
  const OnlineModel model =
      OnlineModel::BestAvailable(R"({"schema_version": 1, "model_name": "no-such-model",
        "system_name": "h200_sxm", "backend": "vllm", "tp_size": 1, "pp_size": 1})")
          .value();
  EXPECT_EQ(model.Diagnostics().source, "fallback_regression");
  EXPECT_FALSE(model.Diagnostics().last_warning.empty());
  const auto iterations =
      ParseMetrics(R"([[{"wall_time": 0.5, "scheduled_requests": {"num_decode_requests": 3,
        "sum_decode_kv_tokens": 99}}]])")
          .value();
  ASSERT_EQ(iterations.size(), 1u);
  EXPECT_EQ(iterations[0][0].wall_time_s, 0.5);
  EXPECT_EQ(iterations[0][0].scheduled.sum_decode_kv_tokens, 99u);
  EXPECT_EQ(ParseMetrics("[").error().kind, ErrorKind::kInvalidArgument);
}

TEST(NamedOptionsApi, FillEveryOptionsStruct) {
  NamedOptions options;
  EXPECT_TRUE(options.Set("model", "Qwen/Qwen3-32B"));
  EXPECT_TRUE(options.Set("isl", "3000"));
  EXPECT_TRUE(options.Set("modes", "agg, disagg,"));
  EXPECT_TRUE(options.Set("moe_ep_size", "8"));
  EXPECT_TRUE(options.Set("nextn", "auto"));
  EXPECT_EQ(options.memory().isl, 3000);
  EXPECT_EQ(options.estimate().workload.isl, 3000);
  EXPECT_EQ(options.sweep().workload.isl, 3000);
  EXPECT_EQ(options.estimate().workload.osl, 1024);
  EXPECT_EQ(options.sweep().workload.osl, 1000);
  EXPECT_EQ(options.recommend().search.model.model, "Qwen/Qwen3-32B");
  EXPECT_EQ(options.memory().model.parallelism.moe_ep, 8);
  EXPECT_EQ(options.model().nextn, std::nullopt);
  EXPECT_EQ(options.sweep().modes, (std::vector<std::string>{"agg", "disagg"}));
  EXPECT_TRUE(options.Set("score", "formula"));
  EXPECT_TRUE(options.Set("concurrency", "12"));
  EXPECT_TRUE(options.Set("correction", "first_token_ms=1,decode_scale=2"));
  EXPECT_EQ(options.estimate().score, "formula");
  EXPECT_EQ(options.recommend().search.score, "formula");
  EXPECT_EQ(options.estimate().load.concurrency, 12);
  EXPECT_EQ(options.recommend().concurrency, 12);
  EXPECT_EQ(options.estimate().load.corrections.size(), 2u);
  EXPECT_TRUE(options.Set("moe_ep_size", "none"));
  EXPECT_EQ(options.model().parallelism.moe_ep, std::nullopt);

  EXPECT_EQ(options.Set("isl", "3000x").error().kind, ErrorKind::kInvalidArgument);
  const Error unknown = options.Set("tp_sise", "2").error();
  EXPECT_EQ(unknown.kind, ErrorKind::kUnknownName);
  EXPECT_NE(unknown.message.find("tp_size"), std::string::npos) << unknown.message;
  EXPECT_EQ(options.sweep().workload.isl, 3000);
}

}  // namespace
}  // namespace infercast
