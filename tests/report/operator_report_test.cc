// The page of operators: what is shown of them, and what is said of a phase as a whole.
#include "report/operator_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  const char* name;
  double ms;
  Bound bound;
  OperatorRole role;
  double attained;  // 0: not known
  OriginKind origin = OriginKind::kInterpolated;
};

EstimatePhase PhaseOf(const char* name, PassKind kind, const std::vector<Line>& lines) {
  EstimatePhase phase;
  phase.name = name;
  phase.kind = kind;
  for (const Line& line : lines) {
    OpEntry& e = phase.operators.entries.emplace_back();
    e.name = line.name;
    e.latency_ms = line.ms;
    e.origin.kind = line.origin;
    OperatorBound& b = phase.bounds.emplace_back();
    b.bound = line.bound;
    b.role = line.role;
    b.count = 2;
    if (line.attained > 0) b.attained = line.attained;
  }
  return phase;
}

EstimatePhase Decode() {
  return PhaseOf("genonly_step", PassKind::kGeneration,
                 {{"norm", 1, Bound::kLaunch, OperatorRole::kActivations, 0.1},
                  {"gemm", 6, Bound::kBandwidth, OperatorRole::kWeights, 0.62, OriginKind::kPoint},
                  {"attention", 3, Bound::kBandwidth, OperatorRole::kAttention, 0.8},
                  {"nothing", 0, Bound::kNone, OperatorRole::kCommunication, 0}});
}

TEST(OperatorReportTest, BoundsAreToldWithWhatIsAttained) {
  const auto text = [](Bound bound, std::optional<double> attained) {
    OperatorBound b;
    b.bound = bound;
    b.attained = attained;
    return BoundText(b);
  };
  EXPECT_EQ(text(Bound::kBandwidth, 0.62), "62 % of bandwidth");
  EXPECT_EQ(text(Bound::kCompute, 1.04), "104 % of compute");
  EXPECT_EQ(text(Bound::kLaunch, 0.1), "launch");
  EXPECT_EQ(text(Bound::kCommunication, 0.4), "communication, 40 % of the links");
  EXPECT_EQ(text(Bound::kCommunication, std::nullopt), "communication");
  EXPECT_EQ(text(Bound::kUnknown, 0.3), "30 % of its roofline");
  EXPECT_EQ(text(Bound::kUnknown, std::nullopt), "not told");
  EXPECT_EQ(text(Bound::kNone, std::nullopt), "");
}

TEST(OperatorReportTest, ASummaryAddsUpAndNamesTheLargest) {
  const PhaseSummary summary = SummaryOf(Decode());
  EXPECT_DOUBLE_EQ(summary.latency_ms, 10);
  EXPECT_DOUBLE_EQ(summary.by_bound[static_cast<std::size_t>(Bound::kBandwidth)], 0.9);
  EXPECT_DOUBLE_EQ(summary.by_mark[static_cast<std::size_t>(Mark::kMeasured)], 0.6);
  ASSERT_EQ(summary.largest.size(), 3U);
  EXPECT_EQ(summary.largest[0].first, "gemm");
  EXPECT_EQ(summary.largest[2].first, "norm");
  EXPECT_THAT(summary.advice, HasSubstr("60 % is reading weights: a larger batch is nearly free"));
  EXPECT_THAT(summary.advice, HasSubstr("its attention, 30 %, grows with the batch"));
}

TEST(OperatorReportTest, AdviceFollowsTheLargestGroup) {
  const auto advice = [](PassKind kind, const Line& line) {
    return SummaryOf(PhaseOf("step", kind, {line})).advice;
  };
  EXPECT_THAT(
      advice(PassKind::kGeneration, {"a", 1, Bound::kBandwidth, OperatorRole::kAttention, 0.8}),
      HasSubstr("KV cache"));
  EXPECT_THAT(advice(PassKind::kContext, {"a", 1, Bound::kCompute, OperatorRole::kWeights, 0.8}),
              HasSubstr("a larger batch does not pay"));
  EXPECT_THAT(advice(PassKind::kContext,
                     {"a", 1, Bound::kCommunication, OperatorRole::kCommunication, 0.8}),
              HasSubstr("less tensor parallelism"));
  EXPECT_THAT(advice(PassKind::kGeneration, {"a", 1, Bound::kLaunch, OperatorRole::kWeights, 0.1}),
              HasSubstr("starting kernels"));
  // What is far from its bound is not told to be bound by it.
  const std::string far =
      advice(PassKind::kGeneration, {"a", 1, Bound::kBandwidth, OperatorRole::kWeights, 0.06});
  EXPECT_THAT(far, HasSubstr("fill the GPU badly"));
  EXPECT_THAT(far, HasSubstr("a (6 % of bandwidth)"));
  EXPECT_THAT(far, Not(HasSubstr("nearly free")));
  EXPECT_EQ(advice(PassKind::kContext, {"a", 1, Bound::kUnknown, OperatorRole::kOther, 0}), "");
}

TEST(OperatorReportTest, TablesShowTheLargestFirstAndLeaveOutWhatCostsNothing) {
  EstimatePhase phase = Decode();
  phase.passes = 2;
  phase.about = "8 decoding";
  const std::string text = OperatorTables({phase}, false);
  EXPECT_THAT(text, HasSubstr("decode step (8 decoding, mean of 2 steps): 5.000 ms"));
  EXPECT_LT(text.find("gemm"), text.find("attention"));
  EXPECT_LT(text.find("attention"), text.find("norm"));
  EXPECT_THAT(text, Not(HasSubstr("nothing  ")));
  EXPECT_THAT(text, HasSubstr("(1 more costs nothing here)"));
  EXPECT_THAT(text, HasSubstr("= measured"));
  // Without bounds there is no such column, and nothing is claimed about it.
  phase.bounds.clear();
  EXPECT_THAT(OperatorTables({phase}, false), Not(HasSubstr("bound")));
  EXPECT_EQ(OperatorTables({}, false), "");
}

TEST(OperatorReportTest, TrustWeighsPhasesByTheTimeSpentInThem) {
  EstimatePhase measured =
      PhaseOf("mix_step", PassKind::kMixed,
              {{"a", 1, Bound::kCompute, OperatorRole::kWeights, 0.5, OriginKind::kPoint}});
  EstimatePhase beyond =
      PhaseOf("genonly_step", PassKind::kGeneration,
              {{"b", 9, Bound::kCompute, OperatorRole::kWeights, 0.5, OriginKind::kExtrapolated}});
  beyond.operators.entries[0].origin.octaves = 1.5F;
  const auto estimated = [&] {
    return TrustOf({measured, beyond}).by_mark[static_cast<std::size_t>(Mark::kEstimated)];
  };
  EXPECT_DOUBLE_EQ(estimated(), 0.9);  // by their lengths
  measured.share = 0.75;
  beyond.share = 0.25;
  EXPECT_DOUBLE_EQ(estimated(), 0.25);
  EXPECT_THAT(TrustText({measured, beyond}),
              HasSubstr("75 % measured, 25 % estimated, up to 2^1.5 beyond measured sizes"));
  EXPECT_EQ(TrustText({}), "");
}

}  // namespace
}  // namespace infercast
