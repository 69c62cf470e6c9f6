// Latent attention kernels and products: worked examples on a small table, prefix correction,
// context parallelism, head routing, modes and errors.
#include "operators/mla.h"

#include <gtest/gtest.h>

#include "operators/latent_data.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::At;
using testing::MadeUpSystem;
using testing::OpenLatent;
using testing::Points;
using testing::Row;

GenerationMla DecodeOp(std::uint32_t heads) {
  GenerationMla op;
  op.name = "decode";
  op.scale_factor = 1.0;
  op.num_heads = heads;
  op.kv_cache_dtype = KvQuant::kBfloat16;
  return op;
}

ContextMla PrefillOp(std::uint32_t heads, KvQuant kv = KvQuant::kBfloat16,
                     FmhaQuant math = FmhaQuant::kBfloat16) {
  ContextMla op;
  op.name = "prefill";
  op.scale_factor = 1.0;
  op.num_heads = heads;
  op.kv_cache_dtype = kv;
  op.fmha_quant_mode = math;
  return op;
}

MlaBmm ProductOp(std::uint32_t heads, GemmQuant quant, bool is_pre) {
  MlaBmm op;
  op.name = "product";
  op.scale_factor = 1.0;
  op.num_heads = heads;
  op.quant_mode = quant;
  op.is_pre = is_pre;
  return op;
}

Row ProductRow(std::string_view quant, std::string_view op, std::int64_t heads, std::int64_t tokens,
               double latency, double power) {
  return {{"bmm_dtype", std::string(quant)},
          {"op_name", std::string(op)},
          {"kernel_source", std::string("kernel")},
          {"num_heads", heads},
          {"num_tokens", tokens},
          {"latency", latency},
          {"power", power}};
}

// Decode rows that form a staircase: larger batches were measured to shorter lengths only. Three
// products at 32 heads.
class SmallTables : public ::testing::Test {
 protected:
  SmallTables() : system_(Backend::kVllm) {
    std::vector<Row> rows;
    const auto add = [&](std::int64_t heads, std::int64_t batch, std::int64_t seq, double latency,
                         double power) {
      rows.push_back({{"mla_dtype", std::string("bfloat16")},
                      {"kv_cache_dtype", std::string("bfloat16")},
                      {"kernel_source", std::string("kernel")},
                      {"num_heads", heads},
                      {"batch_size", batch},
                      {"isl", std::int64_t{1}},
                      {"step", seq - 1},
                      {"latency", latency},
                      {"power", power}});
    };
    add(16, 1, 1024, 0.010697, 216.5), add(16, 1, 4096, 0.011286, 216.5);
    add(16, 1, 16384, 0.013646, 216.5), add(16, 8, 1024, 0.012987, 220.0);
    add(16, 8, 4096, 0.017706, 220.0), add(16, 8, 16384, 0.03658, 220.0);
    add(16, 64, 1024, 0.024486, 248.0), add(16, 64, 4096, 0.055943, 248.0);
    add(16, 256, 1024, 0.059943, 344.0), add(32, 1, 1024, 0.010893, 232.5);
    add(32, 1, 4096, 0.012073, 232.5), add(32, 1, 16384, 0.016791, 232.5);
    add(32, 8, 1024, 0.01456, 236.0), add(32, 8, 4096, 0.023997, 236.0);
    add(32, 8, 16384, 0.061746, 236.0), add(32, 64, 1024, 0.034972, 264.0);
    add(32, 64, 4096, 0.097886, 264.0), add(32, 256, 1024, 0.101886, 360.0);
    system_.Put("generation_mla_perf", rows);
    system_.Put("mla_bmm_perf", {ProductRow("bfloat16", "mla_gen_pre", 32, 4, 0.02, 100.0),
                                 ProductRow("bfloat16", "mla_gen_pre", 32, 16, 0.03, 150.0),
                                 ProductRow("bfloat16", "mla_gen_pre", 32, 64, 0.08, 200.0)});
  }

  MadeUpSystem system_;
};

TEST_F(SmallTables, DecodeLookUps) {
  struct Case {
    std::uint32_t heads, batch, s;
    double latency, energy;
    OriginKind origin;
  };
  const Database db = system_.Open(DatabaseMode::kSilicon);
  for (const Case& c : std::initializer_list<Case>{
           {16, 4, 4096, 0.01403742857142857, 3.0601594285714286, OriginKind::kInterpolated},
           {16, 64, 16384, 0.26700989149089621, 67.361948641722975, OriginKind::kExtrapolated},
           {16, 200, 65536, 3.5885493378729887, 897.09929972180817, OriginKind::kExtrapolated},
           {16, 1, 128, 0.0011846906895775337, 0.26490207378054542, OriginKind::kExtrapolated},
           {24, 256, 2000, 0.14996335889769591, 52.947900387912497, OriginKind::kExtrapolated},
           {16, 8, 4096, 0.017706, 0.017706 * 220.0, OriginKind::kPoint}}) {
    const auto result = BoundGenerationMla(DecodeOp(c.heads), db).Query(At(c.batch, c.s));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_DOUBLE_EQ(result->latency_ms, c.latency) << c.batch << " " << c.s;
    EXPECT_DOUBLE_EQ(result->energy_wms, c.energy);
    EXPECT_EQ(result->source, Source::kSilicon);
    EXPECT_EQ(result->tier, Tier::kSilicon);
    EXPECT_EQ(result->origin.kind, c.origin);
    EXPECT_EQ(result->origin.octaves > 0, c.origin == OriginKind::kExtrapolated);
    ASSERT_NE(result->origin.source, nullptr);
    EXPECT_EQ(result->origin.source->version, "1.0.0");
  }
  // One of the two bracketing batches was not measured that far.
  const auto survivor = BoundGenerationMla(DecodeOp(16), db).Query(At(32, 10000));
  ASSERT_TRUE(survivor);
  EXPECT_DOUBLE_EQ(survivor->latency_ms, 0.10709746875000001);
  EXPECT_DOUBLE_EQ(survivor->energy_wms, 23.561443125);
}

TEST_F(SmallTables, ProductLookUps) {
  const Database db = system_.Open(DatabaseMode::kSilicon);
  const BoundMlaBmm product(ProductOp(32, GemmQuant::kBfloat16, true), db);
  struct Case {
    std::uint32_t tokens;
    double latency, energy;
  };
  for (const Case& c : std::initializer_list<Case>{{16, 0.03, 4.5},
                                                   {40, 0.055, 9.625},
                                                   {1, 0.019436090225563907, 1.9436090225563907},
                                                   {1000, 0.53, 106}}) {
    const auto result = product.Query(At(c.tokens, 12345));  // the length says nothing here
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_DOUBLE_EQ(result->latency_ms, c.latency);
    EXPECT_DOUBLE_EQ(result->energy_wms, c.energy);
  }
}

TEST_F(SmallTables, AbsentTableIsMissingDataAndHybridHasNothingToEstimateFrom) {
  const auto silicon =
      BoundContextMla(PrefillOp(16), system_.Open(DatabaseMode::kSilicon)).Query(At(1, 8));
  ASSERT_FALSE(silicon);
  EXPECT_EQ(silicon.error().kind, ErrorKind::kPerfDatabase);
  for (const DatabaseMode mode : {DatabaseMode::kHybrid, DatabaseMode::kEmpirical}) {
    const auto result = BoundContextMla(PrefillOp(16), system_.Open(mode)).Query(At(1, 8));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kEmpiricalNotImplemented);
  }
  EXPECT_TRUE(BoundContextMla(PrefillOp(16), system_.Open(DatabaseMode::kSol)).Query(At(1, 8)));
}

TEST_F(SmallTables, DamagedTableStaysAnErrorInNativeBehaviour) {
  system_.Put("context_mla_perf", {{{"mla_dtype", std::string("bfloat16")}, {"latency", 1.0}}});
  const auto native = BoundContextMla(PrefillOp(16), system_.Open(DatabaseMode::kHybrid, {}, false,
                                                                  Behaviour::kNative))
                          .Query(At(1, 8));
  ASSERT_FALSE(native);
  EXPECT_EQ(native.error().kind, ErrorKind::kCorruptData);
  const auto estimate = BoundContextMla(PrefillOp(16), system_.Open(DatabaseMode::kEmpirical, {},
                                                                    false, Behaviour::kNative))
                            .Query(At(1, 8));
  ASSERT_FALSE(estimate);
  EXPECT_EQ(estimate.error().kind, ErrorKind::kCorruptData);
  const auto reference =
      BoundContextMla(PrefillOp(16), system_.Open(DatabaseMode::kHybrid)).Query(At(1, 8));
  ASSERT_FALSE(reference);
  EXPECT_EQ(reference.error().kind, ErrorKind::kEmpiricalNotImplemented);
}

// Head routing: powers of two are measured, others take a share of the next one unless they were
// measured themselves.
TEST(MlaBmm, HeadsAndFormats) {
  MadeUpSystem system(Backend::kVllm);
  system.Put("mla_bmm_perf", {ProductRow("bfloat16", "mla_gen_pre", 1, 8, 0.5, 10.0),
                              ProductRow("bfloat16", "mla_gen_pre", 128, 8, 1.0, 10.0),
                              ProductRow("bfloat16", "mla_gen_post", 128, 8, 2.0, 10.0),
                              ProductRow("bfloat16", "mla_gen_post", 96, 8, 3.0, 10.0),
                              ProductRow("fp8", "mla_gen_pre", 128, 8, 4.0, 10.0)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  const auto latency = [&](std::uint32_t heads, GemmQuant quant, bool pre, const Database& from) {
    const auto result = BoundMlaBmm(ProductOp(heads, quant, pre), from).Query(At(8, 1));
    return result ? result->latency_ms : -1.0;
  };
  EXPECT_EQ(latency(128, GemmQuant::kBfloat16, true, db), 1.0);
  EXPECT_EQ(latency(96, GemmQuant::kBfloat16, true, db), 0.75);  // 96/128 of the next power
  EXPECT_EQ(latency(96, GemmQuant::kBfloat16, false, db), 3.0);  // measured itself
  EXPECT_EQ(latency(128, GemmQuant::kFp8, true, db), 4.0);
  // fp8 was measured, but not this product: its points come from bf16. Routing and estimates look
  // at the format alone, so 96 heads are not found and no estimate is made.
  EXPECT_EQ(latency(128, GemmQuant::kFp8, false, db), 2.0);
  EXPECT_EQ(latency(96, GemmQuant::kFp8, false, db), 1.5);
  EXPECT_EQ(latency(128, GemmQuant::kFp8, false, system.Open(DatabaseMode::kEmpirical)), -1.0);
  // A format that was never measured is bf16's in every way, but for its own roofline.
  EXPECT_EQ(latency(96, GemmQuant::kInt8Wo, false, db), 3.0);
  // The next power of two is not measured: no other one stands in.
  EXPECT_EQ(latency(130, GemmQuant::kBfloat16, true, db), -1.0);
  EXPECT_EQ(latency(32, GemmQuant::kBfloat16, true, db), -1.0);
  // Nothing to do.
  EXPECT_EQ(latency(0, GemmQuant::kBfloat16, true, db), 0.0);
}

TEST(MlaBmm, RooflineUsesTheOperatorsOwnHeads) {
  const Database db = OpenLatent(DatabaseMode::kSol);
  const auto result = BoundMlaBmm(ProductOp(60, GemmQuant::kBfloat16, true), db).Query(At(8, 1));
  ASSERT_TRUE(result);
  EXPECT_DOUBLE_EQ(result->latency_ms, latent::MlaBmmRoof(8, 60, 2, 6e14, 3e12).Time());
  EXPECT_TRUE(result->has_sol);
}

class Prefill : public ::testing::Test {
 protected:
  Prefill() {
    const auto table = silicon_.Get(TableId::kContextMla);
    if (!table) throw std::runtime_error(table.error().message);
    grid_ = *(*table)->Slice({"bfloat16", "bfloat16"});
    // A point that prefixes fit into.
    for (const auto& point : Points(grid_)) {
      if (point.keys[1] == 4096 && point.leaf.energy > 0) point_ = point;
    }
  }
  std::uint32_t Key(std::size_t i) const { return static_cast<std::uint32_t>(point_.keys.at(i)); }

  Database silicon_ = OpenLatent(DatabaseMode::kSilicon);
  GridView grid_;
  testing::Point point_;
};

TEST_F(Prefill, MeasuredPointWithItsEnergy) {
  const auto result = BoundContextMla(PrefillOp(Key(0)), silicon_).Query(At(Key(2), Key(1)));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->latency_ms, point_.leaf.latency);
  EXPECT_EQ(result->energy_wms, point_.leaf.latency * point_.leaf.power);
  EXPECT_EQ(result->origin.kind, OriginKind::kPoint);
}

TEST_F(Prefill, CachedTokensTakeTheirShareOff) {
  const auto result = BoundContextMla(PrefillOp(Key(0)), silicon_).Query(At(Key(2), 3072, 1024));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->latency_ms, point_.leaf.latency * (15.0 / 16.0));
  EXPECT_EQ(result->energy_wms, point_.leaf.energy * (15.0 / 16.0));
}

TEST_F(Prefill, AllTokensCachedIsFreeWhenMeasuredAndNotWhenEstimated) {
  const auto silicon = BoundContextMla(PrefillOp(Key(0)), silicon_).Query(At(1, 0, 2048));
  ASSERT_TRUE(silicon);
  EXPECT_EQ(silicon->latency_ms, 0.0);
  const auto estimate = BoundContextMla(PrefillOp(Key(0)), OpenLatent(DatabaseMode::kEmpirical))
                            .Query(At(1, 0, 2048));
  ASSERT_TRUE(estimate);
  EXPECT_GT(estimate->latency_ms, 0.0);
}

TEST_F(Prefill, EstimateAtAMeasuredPointIsThePoint) {
  const auto result = BoundContextMla(PrefillOp(Key(0)), OpenLatent(DatabaseMode::kEmpirical))
                          .Query(At(Key(2), Key(1)));
  ASSERT_TRUE(result);
  EXPECT_DOUBLE_EQ(result->latency_ms, point_.leaf.latency);
  EXPECT_EQ(result->energy_wms, 0.0);
  EXPECT_EQ(result->source, Source::kEmpirical);
  EXPECT_EQ(result->tier, Tier::kEmpirical);
  EXPECT_EQ(result->origin.kind, OriginKind::kEstimated);
}

TEST_F(Prefill, HybridAsksTheMeasurementsFirst) {
  const Database hybrid = OpenLatent(DatabaseMode::kHybrid);
  const auto found = BoundContextMla(PrefillOp(Key(0)), hybrid).Query(At(Key(2), Key(1)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->source, Source::kSilicon);
  // An empty batch has no anchor in silicon, and costs nothing as an estimate.
  const auto empty = BoundContextMla(PrefillOp(Key(0)), silicon_).Query(At(0, 128));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().kind, ErrorKind::kPerfDatabase);
  const auto estimated = BoundContextMla(PrefillOp(Key(0)), hybrid).Query(At(0, 128));
  ASSERT_TRUE(estimated);
  EXPECT_EQ(estimated->latency_ms, 0.0);
  EXPECT_EQ(estimated->source, Source::kEmpirical);
}

TEST_F(Prefill, ContextParallelRanksTakeFirstAndLastSlice) {
  ContextMla op = PrefillOp(Key(0));
  const BoundContextMla whole(op, silicon_);
  op.cp_size = 2;
  op.scale_factor = 3.0;
  const auto result = BoundContextMla(op, silicon_).Query(At(2, 4000, 100));
  const auto first = whole.Query(At(2, 1000, 100));
  const auto last = whole.Query(At(2, 1000, 3100));
  ASSERT_TRUE(result && first && last);
  EXPECT_EQ(result->latency_ms, (first->latency_ms + last->latency_ms) * 3.0);
  EXPECT_EQ(result->energy_wms, (first->energy_wms + last->energy_wms) * 3.0);
  op.cp_size = 0;
  op.scale_factor = 1.0;
  EXPECT_EQ(BoundContextMla(op, silicon_).Query(At(2, 1000, 100))->latency_ms, first->latency_ms);
}

TEST_F(Prefill, ScaleMultipliesAfterTheClamp) {
  ContextMla op = PrefillOp(Key(0));
  op.scale_factor = -2.0;
  const auto result = BoundContextMla(op, silicon_).Query(At(Key(2), Key(1)));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->latency_ms, point_.leaf.latency * -2.0);
}

TEST_F(Prefill, UnmeasuredFormatIsMissing) {
  const auto result = BoundContextMla(PrefillOp(16, KvQuant::kInt8), silicon_).Query(At(1, 128));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kPerfDatabase);
  EXPECT_NE(result.error().message.find("int8"), std::string::npos);
}

TEST_F(Prefill, MissingRateBeatsEverythingInEveryMode) {
  for (const DatabaseMode mode : {DatabaseMode::kSilicon, DatabaseMode::kHybrid,
                                  DatabaseMode::kEmpirical, DatabaseMode::kSol}) {
    const auto result = BoundContextMla(PrefillOp(16, KvQuant::kFp8, FmhaQuant::kFp8Block),
                                        OpenLatent(mode, {}, "latent_old"))
                            .Query(At(1, 128));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kMissingSystemFlops);
  }
}

TEST_F(Prefill, BoundOperatorsMayBeCopiedAndOutliveTheirView) {
  std::optional<BoundContextMla> copy;
  {
    const Database db = OpenLatent(DatabaseMode::kEmpirical);
    const BoundContextMla original(PrefillOp(64), db);
    copy = original;
  }
  EXPECT_TRUE(copy->Query(At(2, 700)));
}

TEST(DecodeFormat, Fp8WhereTheCacheIsAndTheGpuComputesInIt) {
  SystemSpec system;
  EXPECT_EQ(latent::DecodeAttentionQuant(KvQuant::kFp8, system), FmhaQuant::kBfloat16);
  system.sm_version = 80;
  EXPECT_EQ(latent::DecodeAttentionQuant(KvQuant::kFp8, system), FmhaQuant::kBfloat16);
  system.sm_version = 89;
  EXPECT_EQ(latent::DecodeAttentionQuant(KvQuant::kFp8, system), FmhaQuant::kFp8);
  EXPECT_EQ(latent::DecodeAttentionQuant(KvQuant::kInt8, system), FmhaQuant::kBfloat16);
}

}  // namespace
}  // namespace infercast
