#include "report/plot_data.h"

#include <gtest/gtest.h>

namespace infercast {
namespace {

TEST(AxisForTest, EndsAtAMultipleOfARoundStepNotBelowTheLargestValue) {
  EXPECT_DOUBLE_EQ(AxisFor(1368.352, 5).end, 1500);
  EXPECT_DOUBLE_EQ(AxisFor(1368.352, 5).step, 500);
  EXPECT_DOUBLE_EQ(AxisFor(100, 10).end, 100);
  EXPECT_DOUBLE_EQ(AxisFor(100, 10).step, 10);
  EXPECT_DOUBLE_EQ(AxisFor(0.031, 4).end, 0.04);
  EXPECT_DOUBLE_EQ(AxisFor(0.031, 4).step, 0.01);
}

TEST(AxisForTest, HasSomeAxisWhenThereIsNothingToScaleTo) {
  EXPECT_DOUBLE_EQ(AxisFor(0, 5).end, 1);
  EXPECT_DOUBLE_EQ(AxisFor(-3, 5).end, 1);
}

TEST(TickTextTest, IsAsShortAsTheStepAllows) {
  EXPECT_EQ(TickText(250, 50), "250");
  EXPECT_EQ(TickText(0, 50), "0");
  EXPECT_EQ(TickText(0.5, 0.25), "0.50");
  EXPECT_EQ(TickText(0.4, 0.2), "0.4");
  EXPECT_EQ(TickText(12000, 2000), "12k");
}

TEST(FrontOfTest, KeepsNonDominatedPointsOfItsSeriesInOrderOfSpeed) {
  PlotData data;
  const auto add = [&](const char* series, double user, double gpu) {
    PlotPoint p;
    p.series = series;
    p.tokens_s_user = user;
    p.tokens_s_gpu = gpu;
    data.points.push_back(p);
  };
  add("a", 30, 100);
  add("b", 40, 500);  // beats all of a, but is not of a
  add("a", 10, 300);
  add("a", 20, 90);  // beaten by the first
  EXPECT_EQ(FrontOf(data, "a"), (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(FrontOf(data, "b"), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(SeriesOf(data), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace infercast
