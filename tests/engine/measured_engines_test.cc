// Whole engines over measured tables: three models under three backends on H200, every kind of
// step. Needs the data package.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "models/model_plan.h"
#include "tables/lane_order.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

enum class Model : std::uint8_t { kQwen32B, kDeepSeekV3, kQwen235B };

// Total, shared, context attention, decode attention.
using Mixed = std::array<double, 4>;

struct Expected {
  Model model;
  Backend backend;
  double context;          // static batch of 8, 4000 in, 500 out
  double generation;       // the same
  double prefix_context;   // with 1000 cached tokens
  double beam_generation;  // beam width 4
  double stride_1;         // 40 out
  double stride_32;
  Mixed mixed_full;    // 4000 prefill tokens of 4000, 15 decoding
  Mixed mixed_chunk;   // 1024 prefill tokens of 4000 with 1000 cached
  Mixed mixed_wide;    // 9000 prefill tokens of 4000 with 1000 cached
  double decode_step;  // 16 decoding
  double prefill;      // 4 of 2048 with 512 cached
  double decode;       // 32 of 2048, 2 out
};

constexpr Expected kExpected[] = {
    {Model::kQwen32B,
     Backend::kTrtllm,
     1688.126021567014,
     6350.081970888486,
     1286.1557248376564,
     6515.445825695201,
     493.3269840059481,
     493.1198038561726,
     {225.27303630792065, 197.62181672636513, 23.511278957837682, 4.139940623717847},
     {67.9881017309088, 58.29808867478108, 5.550072432409873, 4.139940623717847},
     {391.9759368559577, 332.2522356223376, 55.583760609902235, 4.139940623717847},
     14.492865619962458,
     318.77927203888004,
     14.413756838571386},
    {Model::kQwen32B,
     Backend::kVllm,
     1721.8662422437983,
     5959.2086653939505,
     1326.1548541067687,
     6267.776161891932,
     463.17762995775297,
     463.0039141237904,
     {220.59708673194777, 197.24796309090823, 20.411424809615752, 2.9376988314237686},
     {66.1695385972306, 58.40829564938647, 4.823544116420359, 2.9376988314237686},
     {402.497776690828, 352.92737899229166, 46.63269886711262, 2.9376988314237686},
     13.460777688859533,
     329.01270386905037,
     13.456241041371072},
    {Model::kQwen32B,
     Backend::kSglang,
     1819.5059624339185,
     5738.062976740103,
     1410.9219288308382,
     5941.5552153516455,
     445.9468768381626,
     445.7755877904707,
     {231.82348289096757, 208.39131981658494, 20.752120176033845, 2.6800428983487654},
     {70.13193314882598, 62.54849565755263, 4.903394592924599, 2.6800428983487654},
     {425.2257854797874, 375.3366942622807, 47.209048319158, 2.6800428983487654},
     12.600880311886423,
     345.6373760495358,
     12.786667741482221},
    {Model::kDeepSeekV3,
     Backend::kTrtllm,
     1080.2442994292346,
     7228.289714377566,
     861.7270160046407,
     10609.842071979592,
     564.1117613555871,
     564.0517055450402,
     {161.7284154724544, 161.7284154724544, 0.0, 0.0},
     {64.80846521703208, 64.80846521703208, 0.0, 0.0},
     {296.00645835604365, 296.00645835604365, 0.0, 0.0},
     17.344271136549118,
     239.5239887251021,
     22.055206651011204},
    {Model::kDeepSeekV3,
     Backend::kVllm,
     1688.6852022013704,
     10253.815201919137,
     1330.310738111009,
     13209.828353731105,
     800.6381938470547,
     800.5873773919766,
     {236.81696118105913, 236.81696118105913, 0.0, 0.0},
     {88.16659607762993, 88.16659607762993, 0.0, 0.0},
     {422.2368841725108, 422.2368841725108, 0.0, 0.0},
     24.856836419964818,
     360.45002485664185,
     26.49112691754731},
    {Model::kDeepSeekV3,
     Backend::kSglang,
     1418.6336947307705,
     10110.290424857827,
     1113.8311476594765,
     13161.151575452486,
     781.6114936833619,
     781.0189676834038,
     {204.1586122746849, 204.1586122746849, 0.0, 0.0},
     {69.50014036377135, 69.50014036377135, 0.0, 0.0},
     {413.66238635498945, 413.66238635498945, 0.0, 0.0},
     26.9395869709936,
     287.78056631181073,
     30.219141231342398},
    {Model::kQwen235B,
     Backend::kTrtllm,
     1040.1880637693462,
     9165.063153101051,
     803.1703901741736,
     14933.525695532211,
     715.1090200811346,
     715.0503870876569,
     {165.94667421987506, 142.63747896724178, 21.24227065669685, 2.066924595936431},
     {69.22160728025175, 62.11785179748532, 5.036830886829991, 2.066924595936431},
     {269.52966078809357, 223.5307316761428, 43.93200451601431, 2.066924595936431},
     22.164420651680217,
     221.7802747034314,
     30.923902967687724},
    {Model::kQwen235B,
     Backend::kVllm,
     1301.9397521991496,
     9999.167859605775,
     996.0401785417027,
     15642.395609656165,
     780.9367441159293,
     780.8999272118966,
     {191.88007741252892, 173.69499517724998, 16.400093933624117, 1.7849883016548425},
     {74.13293284051986, 68.44599882150519, 3.901945717359819, 1.7849883016548425},
     {320.5840069808578, 284.0198425031792, 34.779176176023796, 1.7849883016548425},
     23.308554403731716,
     267.3802422302768,
     31.510611451544825},
    {Model::kQwen235B,
     Backend::kSglang,
     1923.6907827595674,
     9000.069584062583,
     1463.2189883805695,
     15973.853914741301,
     702.9788030457992,
     702.9538942986885,
     {260.87409227795007, 244.01430557276592, 15.323775157607479, 1.5360115475766905},
     {92.91576058549211, 87.7300655336845, 3.649683504230919, 1.5360115475766905},
     {437.01547149145455, 401.02041704576897, 34.45904289810893, 1.5360115475766905},
     26.918348436940178,
     358.99430354735324,
     32.23610972047998},
};

BuildOptions OptionsFor(Model model, Backend backend) {
  BuildOptions options;
  options.backend = backend;
  switch (model) {
    case Model::kQwen32B:
      options.layout.tp = 2;
      break;
    case Model::kDeepSeekV3:
      options.layout.tp = 8;
      options.layout.moe_tp = 1;
      options.layout.moe_ep = 8;
      options.quant.fmha = FmhaQuant::kBfloat16;
      break;
    case Model::kQwen235B:
      options.layout.tp = 4;
      options.layout.moe_tp = 1;
      options.layout.moe_ep = 4;
      break;
  }
  return options;
}

Result<std::shared_ptr<const Engine>> Open(Model model, Backend backend, std::int64_t nextn = 0) {
  IC_ASSIGN(const auto roots, ResolveSystemsPaths());
  constexpr std::array<const char*, 3> kVersions = {"1.3.0rc20", "0.5.14", "0.24.0"};
  constexpr std::array<const char*, 3> kModels = {"Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3",
                                                  "Qwen/Qwen3-235B-A22B"};
  DatabaseIdentity identity;
  identity.systems_root = roots.front();
  identity.system = "h200_sxm";
  identity.backend = backend;
  identity.version = kVersions[static_cast<std::size_t>(backend)];
  IC_ASSIGN(auto store, TableStore::Open(identity));
  const Database database(std::move(store), DatabaseMode::kSilicon, TransferPolicy{},
                          Behaviour::kReference);
  IC_ASSIGN(const ModelConfig config,
            LoadModelConfig(kModels[static_cast<std::size_t>(model)], {ModelConfigPaths(roots)}));
  BuildOptions options = OptionsFor(model, backend);
  options.nextn = nextn;
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(config, options));
  AttentionLaneOrders lanes;
  IC_ASSIGN(lanes.context, ResolveLaneOrder(database, TableId::kContextAttention, std::nullopt));
  IC_ASSIGN(lanes.generation,
            ResolveLaneOrder(database, TableId::kGenerationAttention, std::nullopt));
  IC_ASSIGN(const EngineSpec spec, CompileEngineSpec(std::move(plan), TargetOf(database), lanes));
  return Engine::Bind(spec, database);
}

// The family's builder may not stand yet.
#define IC_SKIP_UNBUILT(opened)                                       \
  if (!opened && opened.error().kind == ErrorKind::kUnsupportedModel) \
  GTEST_SKIP() << opened.error().message

void ExpectClose(double actual, double expected, const char* what) {
  EXPECT_NEAR(actual, expected, std::abs(expected) * 1e-12) << what;
}

void ExpectMixed(const Engine& engine, const MixedShape& shape, const Mixed& expected,
                 const char* what) {
  const auto cost = engine.MixedStep(shape);
  ASSERT_TRUE(cost) << cost.error().message;
  ExpectClose(cost->total_ms(), expected[0], what);
  ExpectClose(cost->shared.latency_ms, expected[1], what);
  ExpectClose(cost->context_attention.latency_ms, expected[2], what);
  ExpectClose(cost->decode_attention.latency_ms, expected[3], what);
}

class MeasuredEngines : public ::testing::TestWithParam<Expected> {
 protected:
  void SetUp() override {
    if (!ResolveSystemsPaths()) GTEST_SKIP() << "no measured data";
  }
};

TEST_P(MeasuredEngines, AnswerEveryKindOfStep) {
  const Expected& e = GetParam();
  const auto opened = Open(e.model, e.backend);
  IC_SKIP_UNBUILT(opened);
  ASSERT_TRUE(opened) << opened.error().message;
  const Engine& engine = **opened;
  RuntimeShape shape{.batch_size = 8, .isl = 4000, .osl = 500};
  const auto whole = engine.RunStatic(shape);
  ASSERT_TRUE(whole) << whole.error().message;
  ExpectClose(whole->context.latency_ms, e.context, "context");
  ExpectClose(whole->generation.latency_ms, e.generation, "generation");
  shape.prefix = 1000;
  ExpectClose(engine.RunStatic(shape, StaticMode::kContext)->total_ms(), e.prefix_context,
              "prefix");
  shape.prefix = 0;
  shape.beam_width = 4;
  ExpectClose(engine.RunStatic(shape, StaticMode::kGeneration)->total_ms(), e.beam_generation,
              "beam");
  shape.beam_width = 1;
  shape.osl = 40;
  ExpectClose(engine.RunStatic(shape, StaticMode::kGeneration, 1)->total_ms(), e.stride_1,
              "stride 1");
  ExpectClose(engine.RunStatic(shape, StaticMode::kGeneration, 32)->total_ms(), e.stride_32,
              "stride 32");
  MixedShape mixed{.context_tokens = 4000, .decodes = 15, .isl = 4000, .osl = 500};
  ExpectMixed(engine, mixed, e.mixed_full, "full prefill");
  mixed.context_tokens = 1024;
  mixed.prefix = 1000;
  ExpectMixed(engine, mixed, e.mixed_chunk, "chunk");
  mixed.context_tokens = 9000;
  ExpectMixed(engine, mixed, e.mixed_wide, "several prefills");
  ExpectClose(engine.DecodeStep(16, 4000, 500)->latency_ms, e.decode_step, "decode step");
  ExpectClose(*engine.PredictPrefill(4, 2048, 512), e.prefill, "prefill");
  ExpectClose(*engine.PredictDecode(32, 2048, 2), e.decode, "decode");
}

std::string NameOf(const ::testing::TestParamInfo<Expected>& info) {
  static const std::array<std::string, 3> kNames = {"Qwen32B", "DeepSeekV3", "Qwen235B"};
  return kNames[static_cast<std::size_t>(info.param.model)] + "_" +
         std::string(ToString(info.param.backend));
}
INSTANTIATE_TEST_SUITE_P(All, MeasuredEngines, ::testing::ValuesIn(kExpected), NameOf);

TEST(MeasuredEngine, ImbalanceScalesAttentionOnly) {
  if (!ResolveSystemsPaths()) GTEST_SKIP() << "no measured data";
  const auto opened = Open(Model::kQwen32B, Backend::kVllm);
  IC_SKIP_UNBUILT(opened);
  ASSERT_TRUE(opened) << opened.error().message;
  const Engine& engine = **opened;
  RuntimeShape shape{.batch_size = 8,
                     .isl = 4000,
                     .osl = 500,
                     .context_imbalance = 1.3,
                     .generation_imbalance = 0.7};
  const auto whole = engine.RunStatic(shape);
  ASSERT_TRUE(whole);
  ExpectClose(whole->context.latency_ms, 1759.3141354400414, "context");
  ExpectClose(whole->generation.latency_ms, 5661.126170769454, "generation");
  ExpectMixed(engine,
              {.context_tokens = 4000,
               .decodes = 15,
               .isl = 4000,
               .osl = 500,
               .context_imbalance = 1.3,
               .generation_imbalance = 0.7},
              {225.83920452540536, 197.24796309090823, 26.534852252500478, 2.056389181996638},
              "mixed");
  ExpectClose(engine.DecodeStep(16, 4000, 500, 0.7)->latency_ms, 12.539168196729886, "decode");
}

TEST(MeasuredEngine, DraftsMultiplyTheDecodeBatch) {
  if (!ResolveSystemsPaths()) GTEST_SKIP() << "no measured data";
  const auto opened = Open(Model::kDeepSeekV3, Backend::kVllm, 1);
  IC_SKIP_UNBUILT(opened);
  ASSERT_TRUE(opened) << opened.error().message;
  const Engine& engine = **opened;
  const auto whole = engine.RunStatic({.batch_size = 8, .isl = 4000, .osl = 500});
  ASSERT_TRUE(whole);
  ExpectClose(whole->context.latency_ms, 1688.6852022013704, "context");
  ExpectClose(whole->generation.latency_ms, 12605.435012154723, "generation");
  ExpectClose(engine.MixedStep({.context_tokens = 4000, .decodes = 15, .isl = 4000, .osl = 500})
                  ->total_ms(),
              237.54301870225734, "mixed");
  ExpectClose(engine.DecodeStep(16, 4000, 500)->latency_ms, 27.772249581218674, "decode");
}

}  // namespace
}  // namespace infercast
