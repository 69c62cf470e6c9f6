// Collectives: measured sizes, groups beyond the measured ones, estimates, hand-overs.
#include <gtest/gtest.h>

#include "operators/bound_operator.h"
#include "operators/made_up_rows.h"

namespace infercast {
namespace {

using testing::AllReduceRow;
using testing::MadeUpSystem;

Nccl Library(std::uint32_t gpus, double elements, std::string operation = "all_reduce") {
  Nccl op;
  op.name = "nccl";
  op.scale_factor = 1;
  op.hidden_size = elements;
  op.num_gpus = gpus;
  op.operation = std::move(operation);
  return op;
}

CustomAllReduce AllReduce(std::uint32_t tp, std::uint32_t hidden) {
  CustomAllReduce op;
  op.name = "allreduce";
  op.scale_factor = 1;
  op.hidden_size = hidden;
  op.tp_size = tp;
  return op;
}

Result<PerfResult> Ask(const MadeUpSystem& system, const Operator& op, std::uint32_t x,
                       DatabaseMode mode = DatabaseMode::kSilicon, TransferPolicy policy = {}) {
  return BoundOperator::Bind(op, system.Open(mode, policy)).Query({.num_tokens = x});
}

class CollectivesTest : public ::testing::Test {
 protected:
  CollectivesTest() : system_(Backend::kVllm) {
    system_.Put("nccl_perf", testing::NcclRows(), testing::kNcclFolder);
    system_.Put("custom_allreduce_perf",
                {AllReduceRow(2, 1024, 0.004, 100), AllReduceRow(2, 4096, 0.008, 100),
                 AllReduceRow(4, 1024, 0.006, 100), AllReduceRow(4, 4096, 0.01, 100)});
  }
  MadeUpSystem system_;
};

TEST_F(CollectivesTest, SizesMayBeFractional) {
  const auto r = Ask(system_, Library(2, 1000.5), 3);
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_DOUBLE_EQ(r->latency_ms, 0.010018877344513686);
  EXPECT_DOUBLE_EQ(r->energy_wms, 0.8022667067581859);
  EXPECT_EQ(r->origin.kind, OriginKind::kInterpolated);
}

TEST_F(CollectivesTest, SizesBeyondTheMeasuredOnesScaleInProportion) {
  EXPECT_DOUBLE_EQ(Ask(system_, Library(2, 100), 1)->latency_ms, 0.0009765625);
  EXPECT_DOUBLE_EQ(Ask(system_, Library(2, 4096), 8192)->latency_ms, 0.4);
}

TEST_F(CollectivesTest, BiggerGroupsBorrowTheLargestMeasured) {
  const auto r = Ask(system_, Library(16, 1024), 1);
  ASSERT_TRUE(r);
  // Each link carries 15/16 instead of 3/4 of the volume, over the slower links between nodes.
  const double factor = 15.0 / 16 * 4 / 3 * 4e11 / 1e11;
  EXPECT_DOUBLE_EQ(r->latency_ms, 0.012 * factor);
  EXPECT_DOUBLE_EQ(r->energy_wms, 0.012 * 80 * factor);
  EXPECT_EQ(r->origin.kind, OriginKind::kSubstituted);
  EXPECT_EQ(Ask(system_, Library(3, 1024), 1).error().kind, ErrorKind::kPerfDatabase);
}

TEST_F(CollectivesTest, LibraryEstimatesBorrowTheLargestGroupWhateverThePolicy) {
  for (const TransferPolicy policy :
       {TransferPolicy{}, TransferPolicy{false, false, false, false}}) {
    const auto r = Ask(system_, Library(8, 102400), 1, DatabaseMode::kEmpirical, policy);
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_DOUBLE_EQ(r->latency_ms, 0.0037459645439377083);
    EXPECT_EQ(r->tier, Tier::kXshape);
  }
  EXPECT_EQ(Ask(system_, Library(3, 102400), 1, DatabaseMode::kEmpirical).error().kind,
            ErrorKind::kEmpiricalNotImplemented);
}

TEST_F(CollectivesTest, LibrarySpeedOfLight) {
  const auto r = Ask(system_, Library(2, 1024), 1, DatabaseMode::kSol);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 5.1200000000000001e-06);
  EXPECT_EQ(r->sol_math_ms, 0);
  EXPECT_EQ(r->sol_mem_ms, r->latency_ms);
  const auto gather = Ask(system_, Library(2, 1024, "all_gather"), 1, DatabaseMode::kSol);
  EXPECT_DOUBLE_EQ(gather->latency_ms, 5.12e-06 / 2);
  EXPECT_EQ(Ask(system_, Library(2, 1024, "broadcast"), 1, DatabaseMode::kSol)->latency_ms, 0);
  EXPECT_EQ(Ask(system_, Library(2, 1024, "broadcast"), 1).error().kind, ErrorKind::kPerfDatabase);
}

TEST_F(CollectivesTest, NoTokens) {
  EXPECT_EQ(Ask(system_, Library(2, 1024), 0).error().kind, ErrorKind::kPerfDatabase);
  const auto r = Ask(system_, Library(2, 1024), 0, DatabaseMode::kHybrid);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->latency_ms, 0);
  EXPECT_EQ(r->source, Source::kEmpirical);
}

TEST_F(CollectivesTest, AGroupOfOneIsFree) {
  const auto all_reduce = Ask(system_, AllReduce(1, 1024), 64);
  ASSERT_TRUE(all_reduce);
  EXPECT_EQ(all_reduce->latency_ms, 0);
  EXPECT_EQ(all_reduce->source, Source::kEmpirical);
  EXPECT_EQ(all_reduce->origin.kind, OriginKind::kExact);
  EXPECT_EQ(Ask(system_, Library(1, 1024), 64)->source, Source::kEmpirical);
  const auto sol = Ask(system_, Library(1, 1024), 64, DatabaseMode::kSol);
  EXPECT_EQ(sol->source, Source::kSol);
  EXPECT_TRUE(sol->has_sol);
}

TEST_F(CollectivesTest, AllReduceSplitsTokensAndBorrows) {
  CustomAllReduce op = AllReduce(4, 1024);
  op.seq_split = 3;
  op.scale_factor = 2;
  EXPECT_DOUBLE_EQ(Ask(system_, op, 4)->latency_ms, 2 * (0.006 + 0.004 * (1024.0 / 3072)));
  op.tp_size = 8;
  op.seq_split = 0;
  const auto r = Ask(system_, op, 1);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 2 * 0.006 * (7.0 / 8 * 4 / 3));
  EXPECT_EQ(r->origin.kind, OriginKind::kSubstituted);
  op.tp_size = 3;
  EXPECT_EQ(Ask(system_, op, 1).error().kind, ErrorKind::kPerfDatabase);
}

TEST_F(CollectivesTest, AllReduceSpeedOfLightHasNoPartsOfItsOwn) {
  const auto r = Ask(system_, AllReduce(4, 1024), 1, DatabaseMode::kSol);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 2.0 * 1024 * 2 / 4 * 3 / 4e11 * 1000);
  EXPECT_TRUE(r->has_sol);
  EXPECT_EQ(r->sol_math_ms + r->sol_mem_ms, 0);
}

TEST(BigNodes, AllReduceOfMoreThanFourUsesTheLibrary) {
  MadeUpSystem system(Backend::kVllm);
  const auto yaml =
      system.Folder().parent_path().parent_path().parent_path().parent_path() / "made_up.yaml";
  std::string text = testing::ReadText(yaml);
  const std::string small = "num_gpus_per_node: 8";
  text.replace(text.find(small), small.size(), "num_gpus_per_node: 72");
  testing::WriteText(yaml, text);
  system.Put("nccl_perf", testing::NcclRows(), testing::kNcclFolder);
  system.Put("custom_allreduce_perf", {AllReduceRow(8, 1024, 0.5, 100)});
  const auto library = Ask(system, Library(8, 1024), 1);
  const auto all_reduce = Ask(system, AllReduce(8, 1024), 1);
  ASSERT_TRUE(library && all_reduce);
  EXPECT_EQ(all_reduce->latency_ms, library->latency_ms);
  const auto estimate = Ask(system, AllReduce(8, 1024), 1, DatabaseMode::kEmpirical);
  ASSERT_TRUE(estimate);
  EXPECT_DOUBLE_EQ(estimate->latency_ms, 0.5);
}

TEST(HandOver, IsALinkAndALatency) {
  const MadeUpSystem system(Backend::kVllm);
  P2P op;
  op.name = "p2p";
  op.scale_factor = 2;
  op.pp_size = 4;
  op.hidden_size = 4096;
  op.seq_split = 2;
  const auto r = Ask(system, op, 5);
  ASSERT_TRUE(r);
  EXPECT_DOUBLE_EQ(r->latency_ms, 2 * ((3 * 4096 * 2 / 1e11 + 1e-5) * 1000));
  EXPECT_EQ(r->source, Source::kEmpirical);
  EXPECT_EQ(r->origin.kind, OriginKind::kAnalytic);
  const auto sol = Ask(system, op, 5, DatabaseMode::kSol);
  EXPECT_DOUBLE_EQ(sol->latency_ms, 2 * (3 * 4096 * 2 / 1e11 * 1000));
  op.pp_size = 1;
  const auto none = Ask(system, op, 5);
  EXPECT_EQ(none->latency_ms, 0);
  EXPECT_EQ(none->source, Source::kSilicon);
}

TEST(MemoryBound, OperatorsPayForBytesAndALaunch) {
  const MadeUpSystem system(Backend::kVllm);
  Elementwise op;
  op.name = "norm";
  op.scale_factor = 2;
  op.bytes_per_token = 8192;
  op.scale_num_tokens = 3;
  op.seq_split = 2;
  EXPECT_DOUBLE_EQ(Ask(system, op, 100)->latency_ms, 0.0063481600000000003);  // 17 tokens
  EXPECT_DOUBLE_EQ(Ask(system, op, 100, DatabaseMode::kSol)->latency_ms, 0.000278528);
  EXPECT_DOUBLE_EQ(Ask(system, op, 0)->latency_ms, 0.006);
  Embedding embedding;
  embedding.name = "embedding";
  embedding.scale_factor = 1;
  embedding.vocab_size = 1000;
  embedding.hidden_size = 8192;
  embedding.seq_split = 2;
  const auto r = Ask(system, embedding, 101);
  EXPECT_DOUBLE_EQ(r->latency_ms, (51 * 8192 * 2 / (1e12 * 0.8) + 3e-6) * 1000);
  EXPECT_EQ(r->source, Source::kEmpirical);
  EXPECT_EQ(r->origin.kind, OriginKind::kAnalytic);
}

}  // namespace
}  // namespace infercast
