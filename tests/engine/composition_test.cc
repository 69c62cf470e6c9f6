// Every rule by which operators add up to phases and steps, on operators that can be priced by
// hand.
#include <gtest/gtest.h>

#include <vector>

#include "engine/data_free.h"
#include "engine/op_lists.h"

namespace infercast {
namespace {

using testing::DataFreeSystem;
using testing::Kernel;

class CompositionTest : public ::testing::Test {
 protected:
  static DataFreeSystem& System() {
    static DataFreeSystem system;
    return system;
  }
  std::shared_ptr<const Engine> plain_ = System().Open(std::nullopt);
  std::shared_ptr<const Engine> drafting_ = System().Open(2);
};

struct Entry {
  const char* name;
  double latency_ms;
};

void ExpectEntries(const Breakdown& breakdown, const std::vector<Entry>& expected) {
  ASSERT_EQ(breakdown.entries.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const OpEntry& entry = breakdown.entries[i];
    EXPECT_EQ(entry.name, expected[i].name);
    EXPECT_DOUBLE_EQ(entry.latency_ms, expected[i].latency_ms) << entry.name;
    EXPECT_EQ(entry.energy_wms, 0.0) << entry.name;
    EXPECT_EQ(entry.source, Source::kEmpirical) << entry.name;
  }
}

RuntimeShape StaticShape() {
  return {.batch_size = 3, .beam_width = 2, .isl = 100, .osl = 70, .prefix = 20};
}

TEST_F(CompositionTest, StaticPhasesSampleTheLeftEndOfEachStretch) {
  const auto plain = plain_->RunStatic(StaticShape());
  ASSERT_TRUE(plain);
  EXPECT_DOUBLE_EQ(plain->context.latency_ms, 0.67725);
  EXPECT_DOUBLE_EQ(plain->generation.latency_ms, 1.0565625);
  EXPECT_DOUBLE_EQ(plain->total_ms(), 0.67725 + 1.0565625);
  const auto drafting = drafting_->RunStatic(StaticShape());
  ASSERT_TRUE(drafting);
  EXPECT_DOUBLE_EQ(drafting->context.latency_ms, 0.67725);
  EXPECT_DOUBLE_EQ(drafting->generation.latency_ms, 2.1346875);
}

TEST_F(CompositionTest, StaticModesRunOnePhase) {
  const auto context = plain_->RunStatic(StaticShape(), StaticMode::kContext);
  ASSERT_TRUE(context);
  EXPECT_DOUBLE_EQ(context->total_ms(), 0.67725);
  EXPECT_EQ(context->generation.latency_ms, 0.0);
  const auto generation = plain_->RunStatic(StaticShape(), StaticMode::kGeneration);
  ASSERT_TRUE(generation);
  EXPECT_DOUBLE_EQ(generation->total_ms(), 1.0565625);
  EXPECT_EQ(generation->context.latency_ms, 0.0);
}

TEST_F(CompositionTest, StaticBreakdownFoldsNames) {
  const auto parts = plain_->ExplainStatic(StaticShape());
  ASSERT_TRUE(parts);
  ExpectEntries(parts->context,
                {{"a", 0.16824999999999998}, {"context_attention", 0.256}, {"ov", 0.253}});
  ExpectEntries(parts->generation, {{"g", 0.526125}, {"generation_attention", 0.5304375}});
}

TEST_F(CompositionTest, StrideZeroIsOne) {
  const auto zero = plain_->RunStatic(StaticShape(), StaticMode::kGeneration, 0);
  const auto one = plain_->RunStatic(StaticShape(), StaticMode::kGeneration, 1);
  ASSERT_TRUE(zero && one);
  EXPECT_EQ(zero->total_ms(), one->total_ms());
}

TEST_F(CompositionTest, OneOutputTokenNeedsNoDecode) {
  RuntimeShape shape = StaticShape();
  shape.osl = 1;
  EXPECT_EQ(plain_->RunStatic(shape)->generation.latency_ms, 0.0);
  shape.osl = 0;
  EXPECT_EQ(plain_->RunStatic(shape)->generation.latency_ms, 0.0);
}

TEST_F(CompositionTest, PrefixBeyondTheInputFailsOnlyWherePrefillRuns) {
  RuntimeShape shape{.isl = 4, .osl = 10, .prefix = 4};
  const auto both = plain_->RunStatic(shape);
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, ErrorKind::kInvalidEngineConfig);
  shape.prefix = 9;
  EXPECT_TRUE(plain_->RunStatic(shape, StaticMode::kGeneration));
}

struct MixedCase {
  MixedShape shape;
  double total[2];
  double shared[2];
  double context_attention;
  double decode_attention[2];
};

TEST_F(CompositionTest, MixedStepsAddSharedAndAttentionParts) {
  const auto shape = [](std::uint32_t ctx, std::uint32_t decodes, std::uint32_t prefix) {
    return MixedShape{
        .context_tokens = ctx, .decodes = decodes, .isl = 100, .osl = 70, .prefix = prefix};
  };
  const std::vector<MixedCase> cases = {
      {shape(100, 5, 20),
       {0.25511979166666665, 0.27985937499999997},
       {0.15888020833333333, 0.17580729166666664},
       0.08933333333333333,
       {0.00690625, 0.014718750000000001}},
      {shape(30, 5, 20),
       {0.103484375, 0.12822395833333333},
       {0.07424479166666667, 0.09117187500000001},
       0.022333333333333334,
       {0.00690625, 0.014718750000000001}},
      {shape(250, 5, 20),
       {0.6418385416666667, 0.6665781249999999},
       {0.37893229166666664, 0.39585937499999996},
       0.256,
       {0.00690625, 0.014718750000000001}},
      {shape(64, 0, 0),
       {0.17841666666666667, 0.17841666666666667},
       {0.12333333333333334, 0.12333333333333334},
       0.05508333333333334,
       {0, 0}},
      {shape(0, 5, 20),
       {0.032067708333333333, 0.055109375},
       {0.02516145833333333, 0.040390625},
       0,
       {0.00690625, 0.014718750000000001}},
  };
  for (const MixedCase& c : cases) {
    SCOPED_TRACE(c.shape.context_tokens);
    for (int i = 0; i < 2; ++i) {
      const Engine& engine = i == 0 ? *plain_ : *drafting_;
      const auto cost = engine.MixedStep(c.shape);
      ASSERT_TRUE(cost);
      EXPECT_DOUBLE_EQ(cost->total_ms(), c.total[i]);
      EXPECT_DOUBLE_EQ(cost->shared.latency_ms, c.shared[i]);
      EXPECT_DOUBLE_EQ(cost->context_attention.latency_ms, c.context_attention);
      EXPECT_DOUBLE_EQ(cost->decode_attention.latency_ms, c.decode_attention[i]);
    }
  }
}

TEST_F(CompositionTest, MixedBreakdownFoldsThenDivides) {
  const auto parts = plain_->ExplainMixedStep(
      {.context_tokens = 30, .decodes = 5, .isl = 100, .osl = 70, .prefix = 20});
  ASSERT_TRUE(parts);
  ExpectEntries(parts->shared, {{"a", 0.03478645833333334}, {"ov", 0.03945833333333333}});
  ExpectEntries(parts->context_attention, {{"context_attention", 0.022333333333333334}});
  ExpectEntries(parts->decode_attention, {{"generation_attention", 0.00690625}});
}

TEST_F(CompositionTest, AnEmptyMixedStepIsFree) {
  const auto cost = plain_->MixedStep({.isl = 100, .osl = 70, .prefix = 200});
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->total_ms(), 0.0);
  EXPECT_TRUE(plain_->ExplainMixedStep({})->shared.entries.empty());
}

TEST_F(CompositionTest, MixedStepsWithoutNewTokensFail) {
  const auto cost =
      plain_->MixedStep({.context_tokens = 16, .decodes = 0, .isl = 4, .osl = 2, .prefix = 4});
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST_F(CompositionTest, DecodeStepsPriceTheMiddleOfTheOutput) {
  EXPECT_DOUBLE_EQ(plain_->DecodeStep(5, 100, 70)->latency_ms, 0.014010416666666668);
  EXPECT_DOUBLE_EQ(drafting_->DecodeStep(5, 100, 70)->latency_ms, 0.027031250000000003);
  EXPECT_EQ(plain_->DecodeStep(0, 100, 70)->latency_ms, 0.0);
  EXPECT_TRUE(plain_->ExplainDecodeStep(0, 100, 70)->entries.empty());
}

TEST_F(CompositionTest, PredictionsAreOnePhaseEach) {
  for (const auto& engine : {plain_, drafting_}) {
    EXPECT_DOUBLE_EQ(*engine->PredictPrefill(2, 64, 4), 0.349125);
  }
  EXPECT_DOUBLE_EQ(*plain_->PredictDecode(2, 64), 0.010104166666666668);
  EXPECT_DOUBLE_EQ(*plain_->PredictDecode(2, 64, 40), 0.39406250000000004);
  EXPECT_DOUBLE_EQ(*drafting_->PredictDecode(2, 64), 0.0153125);
  EXPECT_DOUBLE_EQ(*drafting_->PredictDecode(2, 64, 40), 0.5971875);
}

TEST_F(CompositionTest, PartsOfAListAreEvaluatedInTheGivenOrder) {
  const std::vector<std::size_t> some = {1, 0, 2};
  const auto parts = plain_->EvaluateContextOps(some, 4, 10, 0, 1.0, std::nullopt);
  ASSERT_TRUE(parts);
  ExpectEntries(*parts, {{"context_attention", 0.04766666666666667}, {"a", 0.03804166666666667}});
  const std::vector<std::size_t> first = {0};
  ExpectEntries(*plain_->EvaluateContextOps(first, 4, 10, 0, 1.0, 7),
                {{"a", 0.004822916666666666}});
  const std::vector<std::size_t> beyond = {0, 4};
  const auto error = plain_->EvaluateContextOps(beyond, 4, 10, 0, 1.0, std::nullopt);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().kind, ErrorKind::kInvalidEngineConfig);
}

TEST_F(CompositionTest, RooflinesSplitIntoMathAndMemory) {
  const std::vector<Operator> ops = {Kernel("a", 1e6, 1)};
  const auto rooflines = BindRooflines(ops, System().OpenDatabase());
  const auto parts = DecomposeOps(rooflines, {.batch_size = 4, .s = 10});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->entries.size(), 1u);
  EXPECT_DOUBLE_EQ(parts->entries[0].sol_ms, 0.008333333333333333);
  EXPECT_EQ(parts->entries[0].sol_math_ms, 0.0);
  EXPECT_DOUBLE_EQ(parts->entries[0].sol_mem_ms, 0.008333333333333333);
}

TEST_F(CompositionTest, CompositesHaveNoRooflineUnlessFree) {
  Overlap busy;
  busy.name = "busy";
  busy.group_a = {Kernel("a", 1e6, 1)};
  Overlap idle;
  idle.name = "idle";
  const Database db = System().OpenDatabase();
  const auto error = DecomposeOps(BindRooflines(std::vector<Operator>{busy}, db), {});
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().kind, ErrorKind::kSolNotImplemented);
  const auto free = DecomposeOps(BindRooflines(std::vector<Operator>{idle}, db), {});
  ASSERT_TRUE(free);
  EXPECT_EQ(free->entries.at(0).sol_ms, 0.0);
}

// One running sum in the order shared operators, context attention, decode attention.
TEST_F(CompositionTest, ObservedPassesTakeTheSlowestRank) {
  const double per_byte = 1.0 / 3.84e9;  // ms
  const ScheduledRequests prefill{.num_prefill_requests = 2, .sum_prefill_tokens = 140};
  const ScheduledRequests decode{.num_decode_requests = 4, .sum_decode_kv_tokens = 4000};
  const ScheduledRequests both{.num_prefill_requests = 2,
                               .sum_prefill_tokens = 140,
                               .sum_prefill_kv_tokens = 60,
                               .num_decode_requests = 4,
                               .sum_decode_kv_tokens = 4000};
  const auto pass = [&](const std::vector<ScheduledRequests>& ranks) {
    return plain_->ObservedForwardPass(ranks).value();
  };
  // Bytes a token and kernels: a 1e6, attention 2 x 2e6, a 3 x 5e5, and the slower group of the
  // overlap (one kernel of 4e6 against two of 1e6 and 2e6).
  const double prefill_ms = 140 * 10.5e6 * per_byte + 0.003 * (1 + 2 + 3 + 1);
  EXPECT_NEAR(pass({prefill}), prefill_ms, 1e-12);
  const double decode_ms = 4 * (1e6 + 3e6 + 0.5 * 2e6) * per_byte + 0.003 * 2.5;
  EXPECT_NEAR(pass({decode}), decode_ms, 1e-12);
  const double both_ms = 144 * (1e6 + 1.5e6 + 4e6) * per_byte + 0.003 * 5 + 140 * 4e6 * per_byte +
                         0.003 * 2 + 4 * 3e6 * per_byte + 0.003;
  EXPECT_NEAR(pass({both}), both_ms, 1e-12);
  EXPECT_NEAR(pass({decode, both, prefill}), both_ms, 1e-12);
  EXPECT_EQ(pass({ScheduledRequests{}}), 0.0);
}

TEST_F(CompositionTest, ObservedPassesNeedRequestsBehindTheirTokens) {
  const auto kind = [&](const std::vector<ScheduledRequests>& ranks) {
    return plain_->ObservedForwardPass(ranks).error().kind;
  };
  EXPECT_EQ(kind({}), ErrorKind::kInvalidForwardPassMetrics);
  EXPECT_EQ(kind({{.sum_prefill_tokens = 1}}), ErrorKind::kInvalidForwardPassMetrics);
  EXPECT_EQ(kind({{.sum_prefill_kv_tokens = 1}}), ErrorKind::kInvalidForwardPassMetrics);
  EXPECT_EQ(kind({{}, {.sum_decode_kv_tokens = 1}}), ErrorKind::kInvalidForwardPassMetrics);
}

TEST(OpenEngine, SaysWhyADescriptionCannotBeLoaded) {
  const DataFreeSystem system;
  const auto kind = [&](auto change) {
    EngineSpec spec = system.Spec(std::nullopt);
    change(spec);
    const auto engine = Engine::Open(spec, system.root(), Behaviour::kReference);
    return engine ? ErrorKind::kInternal : engine.error().kind;
  };
  EXPECT_EQ(kind([](EngineSpec& s) { s.schema_version = 14; }),
            ErrorKind::kUnsupportedSchemaVersion);
  EXPECT_EQ(kind([](EngineSpec& s) { s.engine.backend_version.reset(); }),
            ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(kind([](EngineSpec& s) { s.engine.transfer_policy = {{"foo"}}; }),
            ErrorKind::kInvalidEngineConfig);
  EXPECT_EQ(kind([](EngineSpec& s) { s.engine.backend_version = "9.9.9"; }),
            ErrorKind::kPerfDatabase);
  EXPECT_EQ(kind([](EngineSpec& s) { s.engine.system_name = "none"; }), ErrorKind::kIo);
  EXPECT_EQ(kind([](EngineSpec& s) { s.context_ops = {FpmForward{}}; }),
            ErrorKind::kInvalidEngineConfig);
  Overlap hidden;
  hidden.group_b = {FpmForward{}};
  EXPECT_EQ(kind([&](EngineSpec& s) { s.generation_ops.push_back(hidden); }),
            ErrorKind::kInvalidEngineConfig);
}

TEST(OpenEngine, WholePassesDoNotSpeculate) {
  const DataFreeSystem system;
  EngineSpec spec = system.Spec(1);
  FpmForward prefill;
  prefill.phase = FpmPhase::kPrefill;
  FpmForward decode;
  decode.phase = FpmPhase::kDecode;
  spec.context_ops = {prefill};
  spec.generation_ops = {decode};
  const auto engine = Engine::Open(spec, system.root(), Behaviour::kReference);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().kind, ErrorKind::kInvalidEngineConfig);
  spec.engine.nextn = 0;
  EXPECT_TRUE(Engine::Open(spec, system.root(), Behaviour::kReference));
}

TEST(OpenEngine, RooflineModeNeedsNoDataDirectory) {
  const DataFreeSystem system;
  EngineSpec spec = system.Spec(std::nullopt);
  spec.engine.backend_version = "9.9.9";
  spec.engine.database_mode = DatabaseMode::kSol;
  EXPECT_TRUE(Engine::Open(spec, system.root(), Behaviour::kReference));
  spec.engine.database_mode = DatabaseMode::kSolFull;
  EXPECT_FALSE(Engine::Open(spec, system.root(), Behaviour::kReference));
  spec.engine.tolerate_dirless_version = true;
  EXPECT_TRUE(Engine::Open(spec, system.root(), Behaviour::kReference));
}

}  // namespace
}  // namespace infercast
