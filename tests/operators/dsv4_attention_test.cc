// DeepSeek-V4 attention modules on made-up tables: head counts, the top-k difference, estimates and
// context parallelism.
#include "operators/dsv4_attention.h"

#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "support/made_up_system.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;
using testing::Row;

testing::Cell Text(const char* text) { return std::string(text); }
testing::Cell Int(std::int64_t value) { return value; }

Row ModuleRow(int heads, int tp, int batch, int isl, int step, double latency) {
  return {{"mla_dtype", Text("bfloat16")},
          {"kv_cache_dtype", Text("fp8_e4m3")},
          {"gemm_type", Text("fp8_block")},
          {"num_heads", Int(heads)},
          {"tp_size", Int(tp)},
          {"batch_size", Int(batch)},
          {"isl", Int(isl)},
          {"step", Int(step)},
          {"latency", latency},
          {"power", 100.0}};
}
Row TopkRow(int batch, int isl, int step, const char* mode, double latency, int heads = 64) {
  return {{"step", Int(step)},        {"isl", Int(isl)},    {"batch_size", Int(batch)},
          {"score_mode", Text(mode)}, {"latency", latency}, {"num_heads", Int(heads)}};
}
Row ScoringRow(int tp, int batch, int isl, int step, double latency) {
  return {{"num_heads", Int(64)}, {"tp_size", Int(tp)},       {"step", Int(step)},
          {"isl", Int(isl)},      {"batch_size", Int(batch)}, {"latency", latency}};
}

template <typename Op>
Op MakeOp(Dsv4AttentionKind kind) {
  Op op;
  op.name = "attention";
  op.scale_factor = 2;
  op.attn_kind = kind;
  op.num_heads = 64;
  op.native_heads = 64;
  op.tp_size = 1;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.fmha_quant_mode = FmhaQuant::kBfloat16;
  op.gemm_quant_mode = GemmQuant::kFp8Block;
  op.window_size = 128;
  op.hidden_size = 4096;
  op.q_lora_rank = 1024;
  op.index_topk = 512;
  return op;
}
constexpr auto kContextOp = &MakeOp<Dsv4Context>;
constexpr auto kGenerationOp = &MakeOp<Dsv4Generation>;
using enum Dsv4AttentionKind;

Result<PerfResult> Ask(const Operator& op, const Database& db, std::uint32_t batch, std::uint32_t s,
                       std::uint32_t prefix = 0) {
  QueryContext ctx;
  ctx.batch_size = batch;
  ctx.s = s;
  ctx.prefix = prefix;
  return BoundOperator::Bind(op, db).Query(ctx);
}

TEST(Dsv4Context, MeasuredHeadCountsStandForOthers) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("dsv4_hca_context_module_perf",
             {ModuleRow(64, 1, 1, 512, 0, 1.0), ModuleRow(32, 2, 1, 512, 0, 0.6),
              ModuleRow(128, 1, 1, 512, 0, 4.0)});
  const Database db = system.Open(DatabaseMode::kSilicon);
  const auto at = [&](std::uint32_t native, std::uint32_t local) {
    Dsv4Context op = kContextOp(kHca);
    op.native_heads = native;
    op.num_heads = local;
    return Ask(op, db, 1, 512);
  };
  EXPECT_EQ(at(64, 64)->latency_ms, 2.0);
  EXPECT_EQ(at(64, 64)->energy_wms, 200.0);
  EXPECT_EQ(at(64, 64)->origin.kind, OriginKind::kPoint);
  EXPECT_EQ(at(64, 32)->latency_ms, 1.2);
  EXPECT_EQ(at(96, 48)->latency_ms, 1.2);  // the largest below, twice
  EXPECT_EQ(at(32, 16)->latency_ms, 1.2);  // nothing below: the smallest
  EXPECT_EQ(at(256, 8)->latency_ms, 8.0);  // 128, which has one local count
  EXPECT_EQ(at(96, 48)->origin.kind, OriginKind::kTransferred);
}

TEST(Dsv4Context, MissesAndEstimates) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("dsv4_hca_context_module_perf",
             {ModuleRow(64, 1, 1, 512, 0, 1.0), ModuleRow(64, 1, 1, 1024, 0, 2.0)});
  Dsv4Context op = kContextOp(kHca);
  const auto estimate = Ask(op, system.Open(DatabaseMode::kEmpirical), 1, 512);
  EXPECT_DOUBLE_EQ(estimate->latency_ms, 2.0);
  EXPECT_EQ(estimate->tier, Tier::kEmpirical);
  EXPECT_EQ(estimate->energy_wms, 0.0);
  op.kv_cache_dtype = KvQuant::kBfloat16;
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kSilicon), 1, 512).error().kind,
            ErrorKind::kPerfDatabase);
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kHybrid), 1, 512).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
  op.gemm_quant_mode = GemmQuant::kNvfp4;  // no fp4 figure
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kHybrid), 1, 512).error().kind,
            ErrorKind::kMissingSystemFlops);
  EXPECT_EQ(Ask(op, system.Open(DatabaseMode::kSol), 1, 512).error().kind,
            ErrorKind::kMissingSystemFlops);
}

TEST(Dsv4Context, EstimatesDoNotDependOnWhatWasAskedBefore) {
  MadeUpSystem system{Backend::kSglang};
  system.Put("dsv4_hca_context_module_perf",
             {ModuleRow(64, 1, 1, 512, 0, 1.0), ModuleRow(64, 1, 1, 4096, 0, 2.0)});
  Dsv4Context wide = kContextOp(kHca);
  wide.hidden_size = 16384;
  const Database shared = system.Open(DatabaseMode::kEmpirical);
  ASSERT_TRUE(Ask(kContextOp(kHca), shared, 1, 700));
  EXPECT_EQ(Ask(wide, shared, 1, 700)->latency_ms,
            Ask(wide, system.Open(DatabaseMode::kEmpirical), 1, 700)->latency_ms);
}

TEST(Dsv4Generation, LengthIsTheCollectedSum) {
  MadeUpSystem system{Backend::kSglang};
  Row row = ModuleRow(64, 1, 8, 1, 4096, 0.5);
  system.Put("dsv4_hca_generation_module_perf", {row});
  EXPECT_EQ(Ask(kGenerationOp(kHca), system.Open(DatabaseMode::kSilicon), 8, 4097)->latency_ms,
            1.0);
}

class TopkDifference : public ::testing::Test {
 protected:
  TopkDifference() {
    system_.Put("dsv4_csa_context_module_perf",
                {ModuleRow(64, 1, 1, 512, 0, 1.0), ModuleRow(64, 1, 1, 1024, 0, 2.0)});
    system_.Put("dsv4_csa_generation_module_perf", {ModuleRow(64, 1, 8, 1, 4096, 0.5)});
    system_.Put("dsv4_csa_topk_calib_perf",
                {TopkRow(1, 512, 0, "v1_flat", 0.5), TopkRow(1, 512, 0, "v1_top_last", 0.25),
                 TopkRow(1, 1024, 0, "v1_flat", 1.0), TopkRow(1, 1024, 0, "v1_top_last", 0.25),
                 TopkRow(8, 1, 4096, "v2_flat", 0.875), TopkRow(8, 1, 4096, "v2_top_last", 0.125),
                 TopkRow(1, 4096, 0, "v1_flat", 9.0)});
  }
  MadeUpSystem system_{Backend::kSglang};
};

TEST_F(TopkDifference, IsTakenOutOfMeasuredValues) {
  const Database db = system_.Open(DatabaseMode::kSilicon);
  const auto exact = Ask(kContextOp(kCsa), db, 1, 512);
  EXPECT_DOUBLE_EQ(exact->latency_ms, 2.0 * 0.75);
  EXPECT_DOUBLE_EQ(exact->energy_wms, 2.0 * 75.0);
  // Between: 1.5 - (0.25 + 0.75) / 2. A shape without both arrangements does not count.
  EXPECT_DOUBLE_EQ(Ask(kContextOp(kCsa), db, 1, 768)->latency_ms, 2.0 * 1.0);
  // Never below zero.
  EXPECT_EQ(Ask(kGenerationOp(kCsa), db, 8, 4097)->latency_ms, 0.0);
  EXPECT_EQ(Ask(kGenerationOp(kCsa), db, 8, 4097)->energy_wms, 0.0);
}

TEST_F(TopkDifference, IsNotBorrowedBetweenModels) {
  Dsv4Context op = kContextOp(kCsa);
  op.native_heads = 128;
  EXPECT_DOUBLE_EQ(Ask(op, system_.Open(DatabaseMode::kSilicon), 1, 512)->latency_ms, 2.0);
}

TEST_F(TopkDifference, DoesNotTouchEstimates) {
  EXPECT_DOUBLE_EQ(
      Ask(kContextOp(kCsa), system_.Open(DatabaseMode::kEmpirical), 1, 512)->latency_ms, 2.0);
}

class ContextSplit : public ::testing::Test {
 protected:
  ContextSplit() {
    std::vector<Row> gathers;
    for (const std::int64_t size : {std::int64_t{1} << 10, std::int64_t{1} << 30}) {
      gathers.push_back({{"nccl_dtype", Text("half")},
                         {"op_name", Text("all_gather")},
                         {"num_gpus", Int(4)},
                         {"message_size", Int(size)},
                         {"latency", static_cast<double>(size) * 1e-6}});
    }
    testing::WriteParquet(
        system_.Folder().parent_path().parent_path() / "nccl" / "2.99" / "nccl_perf.parquet",
        gathers);
    for (const char* kind : {"csa", "hca"}) {
      system_.Put(std::string("dsv4_") + kind + "_context_module_perf",
                  {ModuleRow(64, 1, 1, 128, 0, 1.0), ModuleRow(64, 1, 1, 1024, 0, 8.0),
                   ModuleRow(64, 1, 1, 4096, 0, 40.0)});
    }
  }
  void PutKernels() {
    system_.Put("dsv4_csa_topk_calib_perf",
                {TopkRow(1, 1024, 0, "v1_top_last", 0.5), TopkRow(1, 4096, 0, "v1_top_last", 4.0)});
    system_.Put("dsv4_paged_mqa_logits_module_perf",
                {ScoringRow(1, 1, 1024, 0, 1.0), ScoringRow(1, 1, 4096, 0, 16.0)});
  }
  static Dsv4Context Split(Dsv4AttentionKind kind) {
    Dsv4Context op = kContextOp(kind);
    op.cp_size = 4;
    return op;
  }
  // Milliseconds of a gather.
  static double Gather(double elements) { return elements * 1e-6; }

  MadeUpSystem system_{Backend::kSglang};
};

TEST_F(ContextSplit, HeavilyCompressedAddsItsGathers) {
  const auto result = Ask(Split(kHca), system_.Open(DatabaseMode::kSilicon), 1, 4096);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NEAR(result->latency_ms, 2.0 * (8.0 + Gather(128 * 512) + Gather(32 * 512)), 1e-12);
  EXPECT_EQ(result->source, Source::kEstimated);
  EXPECT_EQ(result->energy_wms, 0.0);
}

TEST_F(ContextSplit, AnEmptyGatherIsAMissInReferenceBehaviourOnly) {
  EXPECT_EQ(Ask(Split(kHca), system_.Open(DatabaseMode::kSilicon), 1, 100).error().kind,
            ErrorKind::kPerfDatabase);
  EXPECT_TRUE(Ask(Split(kHca), system_.Open(DatabaseMode::kSilicon, {}, false, Behaviour::kNative),
                  1, 100));
}

TEST_F(ContextSplit, IndexedNeedsItsKernels) {
  EXPECT_EQ(Ask(Split(kCsa), system_.Open(DatabaseMode::kSilicon), 1, 4096).error().kind,
            ErrorKind::kPerfDatabase);
  PutKernels();
  const auto result = Ask(Split(kCsa), system_.Open(DatabaseMode::kSilicon), 1, 4096);
  ASSERT_TRUE(result) << result.error().message;
  const double scoring = 16.0 / 4.0 - 1.0;
  const double choosing = 4.0 / 4.0 - 0.5;
  EXPECT_NEAR(result->latency_ms,
              2.0 * (8.0 + scoring + choosing + Gather(4096 * 128) + Gather(1024 * 512)), 1e-12);
  // Longer than the choosing kernel was measured.
  EXPECT_EQ(Ask(Split(kCsa), system_.Open(DatabaseMode::kSilicon), 1, 5000).error().kind,
            ErrorKind::kPerfDatabase);
}

TEST(KernelGrid, InterpolatesAxisByAxis) {
  const KernelGrid grid({{1, 100, 0, 1.0}, {1, 100, 10, 2.0}, {1, 200, 0, 5.0}, {4, 100, 0, 7.0}});
  EXPECT_EQ(grid.Interpolate(0, 100, 1), 1.0);
  EXPECT_EQ(grid.Interpolate(5, 100, 1), 1.5);
  EXPECT_EQ(grid.Interpolate(99, 100, 1), 2.0);
  EXPECT_EQ(grid.Interpolate(5, 150, 1), (1.5 + 5.0) / 2.0);
  EXPECT_EQ(grid.Interpolate(0, 100, 2.5), 4.0);
  EXPECT_EQ(grid.Interpolate(0, 1, 9), 7.0);
}

TEST(KernelGrid, NearestTakesTheSmallerOfEquals) {
  const KernelGrid grid({{1, 100, 0, 1.0}, {1, 100, 10, 2.0}, {1, 200, 0, 5.0}, {3, 50, 0, 7.0}});
  EXPECT_EQ(grid.Nearest(5, 120, 1), 1.5);
  EXPECT_EQ(grid.Nearest(0, 150, 2), 1.0);
  EXPECT_EQ(grid.Nearest(0, 201, 1), std::nullopt);
  EXPECT_EQ(grid.Nearest(0, 60, 3), std::nullopt);  // this batch ends at 50
  EXPECT_EQ(grid.MaxSequence(3), 50.0);
}

}  // namespace
}  // namespace infercast
