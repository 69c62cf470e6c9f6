#include "report/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/sample_plot.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SvgPlotTest, DrawsEveryPointOnceAndMarksThePicked) {
  const std::string svg = SvgPlot(testing::SamplePlot(120));
  EXPECT_EQ(Count(svg, "<path class=\"picked\""), 3u);
  EXPECT_EQ(Count(svg, "<circle"), 117u + 2u);  // and one of each series in the legend
  EXPECT_EQ(Count(svg, "<polyline"), 2u);
  EXPECT_THAT(svg, HasSubstr("TPOT target 30 ms"));
}

TEST(SvgPlotTest, EscapesNames) {
  PlotData data = testing::SamplePlot(2);
  data.title = "</title><script>alert(1)</script>";
  data.points[0].series = "\"><script>";
  EXPECT_THAT(SvgPlot(data), Not(HasSubstr("<script")));
}

TEST(SvgPlotTest, LeavesOutPointsWithoutFigures) {
  PlotData data = testing::SamplePlot(4);
  data.points[1].tokens_s_gpu = std::nan("");
  const std::string svg = SvgPlot(data);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace infercast
