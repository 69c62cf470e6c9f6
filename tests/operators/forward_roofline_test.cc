// The whole-model roofline, operator by operator.
#include "operators/forward_roofline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace infercast {
namespace {

SystemSpec System() {
  SystemSpec system;
  system.mem_bw = 1e12;
  system.bfloat16_tc_flops = 1e14;
  system.fp8_tc_flops = 1.5e14;
  system.num_gpus_per_node = 8;
  system.intra_node_bw = 4e11;
  system.inter_node_bw = 1e11;
  return system;
}

double Evaluate(const std::vector<Operator>& ops, const ForwardPoint& point,
                const SystemSpec& system = System()) {
  const auto roofline = ForwardRoofline::Compile(ops, system);
  EXPECT_TRUE(roofline) << (roofline ? "" : roofline.error().message);
  return roofline ? roofline->Evaluate(point) : std::nan("");
}

Gemm MakeGemm(const char* name, GemmQuant quant) {
  Gemm op;
  op.name = name;
  op.scale_factor = 2;
  op.n = 1000;
  op.k = 2000;
  op.quant_mode = quant;
  op.scale_num_tokens = 1;
  return op;
}

constexpr ForwardPoint kPoint{.tokens = 3000, .requests = 3, .length = 1000, .prefix = 0};

TEST(ForwardRoofline, SumsInOrderAndIsZeroWithoutOperators) {
  EXPECT_EQ(Evaluate({}, kPoint), 0.0);
  const double one = Evaluate({MakeGemm("a", GemmQuant::kBfloat16)}, kPoint);
  const double math = 2.0 * 3000 * 1000 * 2000 / 1e14 * 1000.0 * 2.0;
  EXPECT_DOUBLE_EQ(one, math);
  EXPECT_DOUBLE_EQ(
      Evaluate({MakeGemm("a", GemmQuant::kBfloat16), MakeGemm("b", GemmQuant::kBfloat16)}, kPoint),
      2.0 * one);
}

TEST(ForwardRoofline, RateOfAFormatFallsBackToBfloat16) {
  const double fp8 = Evaluate({MakeGemm("a", GemmQuant::kFp8)}, kPoint);
  EXPECT_DOUBLE_EQ(fp8, 2.0 * 3000 * 1000 * 2000 / 1.5e14 * 1000.0 * 2.0);
  // No fp4 figure: four times bfloat16, whereupon memory decides.
  SystemSpec slow = System();
  slow.mem_bw = 1e15;
  EXPECT_DOUBLE_EQ(Evaluate({MakeGemm("a", GemmQuant::kNvfp4)}, kPoint, slow),
                   2.0 * 3000 * 1000 * 2000 / 4e14 * 1000.0 * 2.0);
}

TEST(ForwardRoofline, AMissingFigureIsNotFinite) {
  SystemSpec bare = System();
  bare.bfloat16_tc_flops.reset();
  EXPECT_FALSE(std::isfinite(Evaluate({MakeGemm("a", GemmQuant::kBfloat16)}, kPoint, bare)));
}

TEST(ForwardRoofline, OutputProjectionSeesRequestsAtTheTopOnly) {
  const ForwardPoint requests{.tokens = 3, .requests = 3, .length = 1000, .prefix = 0};
  const Gemm logits = MakeGemm("context_logits_gemm", GemmQuant::kBfloat16);
  const Gemm plain = MakeGemm("plain", GemmQuant::kBfloat16);
  EXPECT_DOUBLE_EQ(Evaluate({logits}, kPoint), Evaluate({plain}, requests));
  Overlap overlap;
  overlap.name = "overlap";
  overlap.group_a = {logits};
  EXPECT_DOUBLE_EQ(Evaluate({overlap}, kPoint), Evaluate({plain}, kPoint));
}

TEST(ForwardRoofline, OverlapTakesTheLongerGroupAndFallbackThePrimary) {
  Overlap overlap;
  overlap.name = "overlap";
  overlap.group_a = {MakeGemm("a", GemmQuant::kBfloat16)};
  overlap.group_b = {MakeGemm("b", GemmQuant::kBfloat16), MakeGemm("c", GemmQuant::kBfloat16)};
  const double one = Evaluate(overlap.group_a, kPoint);
  EXPECT_DOUBLE_EQ(Evaluate({overlap}, kPoint), 2.0 * one);
  Fallback fallback;
  fallback.name = "fallback";
  fallback.primary = Operator(MakeGemm("a", GemmQuant::kBfloat16));
  EXPECT_DOUBLE_EQ(Evaluate({fallback}, kPoint), one);
}

TEST(ForwardRoofline, KindsWithoutABound) {
  Mamba2 mamba;
  mamba.name = "mamba";
  EXPECT_EQ(ForwardRoofline::Compile({mamba}, System()).error().kind,
            ErrorKind::kSolNotImplemented);
  Fallback fallback;
  fallback.primary = Operator(mamba);
  fallback.fallback = {MakeGemm("a", GemmQuant::kBfloat16)};
  EXPECT_EQ(ForwardRoofline::Compile({fallback}, System()).error().kind,
            ErrorKind::kSolNotImplemented);
  MoeDispatch retired;
  retired.flavor = DispatchFlavor::kRetiredDeepEp;
  EXPECT_EQ(ForwardRoofline::Compile({retired}, System()).error().kind,
            ErrorKind::kInvalidEngineConfig);
}

TEST(ForwardRoofline, Collectives) {
  CustomAllReduce reduce;
  reduce.scale_factor = 1;
  reduce.hidden_size = 100;
  reduce.tp_size = 4;
  const double elements = 3000.0 * 100.0;
  EXPECT_DOUBLE_EQ(Evaluate({reduce}, kPoint), 2.0 * elements * 2.0 / 4.0 * 3.0 / 4e11 * 1000.0);
  reduce.tp_size = 16;  // beyond the node
  EXPECT_DOUBLE_EQ(Evaluate({reduce}, kPoint), 2.0 * elements * 2.0 / 16.0 * 15.0 / 1e11 * 1000.0);
  reduce.tp_size = 1;
  EXPECT_EQ(Evaluate({reduce}, kPoint), 0.0);

  Nccl nccl;
  nccl.scale_factor = 1;
  nccl.hidden_size = 100;
  nccl.num_gpus = 4;
  nccl.operation = "all_gather";
  const double gather = 2.0 * elements * 3.0 / 4.0 / 4e11 * 1000.0;
  EXPECT_DOUBLE_EQ(Evaluate({nccl}, kPoint), gather);
  nccl.operation = "all_reduce";
  EXPECT_DOUBLE_EQ(Evaluate({nccl}, kPoint), 2.0 * gather);
  nccl.operation = "broadcast";
  EXPECT_EQ(Evaluate({nccl}, kPoint), 0.0);

  P2P p2p;
  p2p.scale_factor = 1;
  p2p.hidden_size = 100;
  p2p.pp_size = 2;
  EXPECT_DOUBLE_EQ(Evaluate({p2p}, kPoint), elements * 2.0 / 1e11 * 1000.0);
  p2p.pp_size = 1;
  EXPECT_EQ(Evaluate({p2p}, kPoint), 0.0);
}

class DispatchRoofline : public ::testing::Test {
 protected:
  static MoeDispatch Op(Backend backend, std::uint32_t tp, std::uint32_t ep, std::uint32_t dp) {
    MoeDispatch op;
    op.scale_factor = 1;
    op.hidden_size = 100;
    op.topk = 8;
    op.num_experts = 64;
    op.moe_tp_size = tp;
    op.moe_ep_size = ep;
    op.attention_dp_size = dp;
    op.pre_dispatch = true;
    op.backend = backend;
    op.moe_quant = MoeQuant::kFp8;
    return op;
  }
  static double Reduce(double n, double v = kVolume) {
    return 2.0 * v * 2.0 / n * (n - 1.0) / 4e11 * 1000.0;
  }
  static double OnePass(double n, double v = kVolume) {
    return 2.0 * v * (n - 1.0) / n / 4e11 * 1000.0;
  }
  static constexpr double kVolume = 3000.0 * 100.0;
};

TEST_F(DispatchRoofline, PlainCollectives) {
  EXPECT_DOUBLE_EQ(Evaluate({Op(Backend::kTrtllm, 4, 1, 1)}, kPoint), Reduce(4));
  EXPECT_DOUBLE_EQ(Evaluate({Op(Backend::kTrtllm, 1, 4, 4)}, kPoint), OnePass(4, 4 * kVolume));
  EXPECT_EQ(Evaluate({Op(Backend::kTrtllm, 1, 1, 1)}, kPoint), 0.0);
  // vLLM adds both where both apply.
  EXPECT_DOUBLE_EQ(Evaluate({Op(Backend::kVllm, 1, 8, 2)}, kPoint),
                   Reduce(8) + OnePass(8, 2 * kVolume));
  // SGLang reduces within the attention group first.
  EXPECT_DOUBLE_EQ(Evaluate({Op(Backend::kSglang, 1, 8, 2)}, kPoint),
                   OnePass(4) + OnePass(8, 2 * kVolume));
  MoeDispatch context_parallel = Op(Backend::kSglang, 1, 4, 1);
  context_parallel.attn_cp_size = 4;
  EXPECT_EQ(Evaluate({context_parallel}, kPoint), 0.0);  // decode, before the experts
  context_parallel.is_context = true;
  EXPECT_DOUBLE_EQ(Evaluate({context_parallel}, kPoint), OnePass(4));
}

TEST_F(DispatchRoofline, AllToAllFlavour) {
  MoeDispatch op = Op(Backend::kTrtllm, 1, 8, 8);
  op.flavor = DispatchFlavor::kTrtllmAlltoall;
  // Small nodes gather, one byte an element before the experts and two after them.
  EXPECT_DOUBLE_EQ(Evaluate({op}, kPoint), OnePass(8, kVolume / 2.0 * 8));
  op.pre_dispatch = false;
  EXPECT_DOUBLE_EQ(Evaluate({op}, kPoint), OnePass(8, kVolume * 8));
  // A rack of 72 sends every token to the ranks of its experts.
  SystemSpec rack = System();
  rack.num_gpus_per_node = 72;
  EXPECT_DOUBLE_EQ(Evaluate({op}, kPoint, rack), 3000.0 * 7.0 * 100.0 * 2.0 / 1e11 * 1000.0);
  op.moe_ep_size = 4;
  op.attention_dp_size = 4;
  op.pre_dispatch = true;
  EXPECT_DOUBLE_EQ(Evaluate({op}, kPoint, rack), 3000.0 * 3.0 * 100.0 * 1.0 / 4e11 * 1000.0);
}

TEST(ForwardRoofline, AttentionOfBothPhases) {
  ContextAttention context;
  context.scale_factor = 2;
  context.n = 8;
  context.n_kv = 2;
  context.head_size = 64;
  const ForwardPoint at{.tokens = 2000, .requests = 1, .length = 2000, .prefix = 1000};
  SystemSpec fast = System();
  fast.mem_bw = 1e18;  // arithmetic decides, the rest vanishes
  const double full = 2.0 * (3000.0 * 3000.0 - 1000.0 * 1000.0) * 8 * 64;
  EXPECT_NEAR(Evaluate({context}, at, fast), full / 1e14 * 1000.0 * 2.0, 1e-9);
  context.window_size = 500;
  const double windowed = 4.0 * 2000.0 * 500.0 * 8 * 64;
  EXPECT_NEAR(Evaluate({context}, at, fast), windowed / 1e14 * 1000.0 * 2.0, 1e-9);

  GenerationAttention generation;
  generation.scale_factor = 1;
  generation.n = 8;
  generation.n_kv = 2;
  generation.head_size = 64;
  const ForwardPoint step{.tokens = 4, .requests = 4, .length = 1001, .prefix = 0};
  EXPECT_DOUBLE_EQ(Evaluate({generation}, step),
                   4.0 * (4.0 * 8 * 64 + 2.0 * 2 * 1000.0 * 64 * 2.0) / 1e12 * 1000.0);
  generation.window_size = 100;
  EXPECT_DOUBLE_EQ(Evaluate({generation}, step),
                   4.0 * (4.0 * 8 * 64 + 2.0 * 2 * 100.0 * 64 * 2.0) / 1e12 * 1000.0);
}

}  // namespace
}  // namespace infercast
