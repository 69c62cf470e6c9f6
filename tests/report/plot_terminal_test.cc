#include "report/plot_terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/sample_plot.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Columns that a line takes on a terminal: UTF-8 sequences count once.
std::size_t Columns(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

TEST(TerminalPlotTest, StaysWithinItsWidth) {
  for (const int width : {40, 80, 117}) {
    for (const bool unicode : {true, false}) {
      PlotData data = testing::SamplePlot(300);
      data.title.clear();
      std::size_t widest = 0;
      for (const std::string& line :
           Lines(TerminalPlot(data, {.width = width, .height = 15, .unicode = unicode}))) {
        widest = std::max(widest, Columns(line));
      }
      EXPECT_LE(widest, static_cast<std::size_t>(width));
      EXPECT_GE(widest, static_cast<std::size_t>(width) - 8);  // and makes use of it
    }
  }
}

TEST(TerminalPlotTest, AsciiStyleIsAscii) {
  const std::string text =
      TerminalPlot(testing::SamplePlot(100), {.width = 60, .height = 12, .unicode = false});
  for (const char c : text) ASSERT_LT(static_cast<unsigned char>(c), 0x80u);
  EXPECT_THAT(text, HasSubstr("a agg trtllm h100_sxm"));
  EXPECT_THAT(text, HasSubstr("@ picked"));
}

TEST(TerminalPlotTest, PutsTheHighestPointAtTheTopAndTheFastestAtTheRight) {
  PlotData data;
  PlotPoint slow, fast;
  slow.series = fast.series = "one";
  slow.tokens_s_user = 0;
  slow.tokens_s_gpu = 100;
  fast.tokens_s_user = 100;
  fast.tokens_s_gpu = 0;
  data.points = {slow, fast};
  const auto lines = Lines(TerminalPlot(data, {.width = 50, .height = 10, .unicode = false}));
  ASSERT_GT(lines.size(), 12u);
  EXPECT_EQ(lines[1], "    100+a");  // after the name of the axis
  EXPECT_EQ(lines[10], "      0+" + std::string(40, ' ') + "a");
}

TEST(TerminalPlotTest, ColoursOnlyWhereAskedFor) {
  const PlotData data = testing::SamplePlot(60);
  EXPECT_THAT(TerminalPlot(data, {.colour = false}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(TerminalPlot(data, {.colour = true}), HasSubstr("\x1b[34m"));
}

TEST(TerminalPlotTest, LetsNoEscapeSequenceOfANameThrough) {
  PlotData data = testing::SamplePlot(4);
  data.title = "evil\x1b]0;title\x07";
  data.points[0].series = "red\x1b[31m";
  const std::string text = TerminalPlot(data, {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
}

TEST(TerminalPlotTest, SaysThatThereIsNothing) {
  EXPECT_EQ(TerminalPlot({}, {}), "(nothing to plot)\n");
}

}  // namespace
}  // namespace infercast
