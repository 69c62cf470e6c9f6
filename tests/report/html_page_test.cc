#include "report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "report/sample_plot.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json DataOf(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(HtmlPageTest, CarriesEveryPoint) {
  const PlotData data = testing::SamplePlot(200);
  const nlohmann::json json = DataOf(HtmlPage(data));
  ASSERT_EQ(json["points"]["user"].size(), 200u);
  const auto& texts = json["texts"];
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    const PlotPoint& p = data.points[i];
    EXPECT_NEAR(json["points"]["user"][i].get<double>(), p.tokens_s_user, p.tokens_s_user * 1e-7);
    EXPECT_NEAR(json["points"]["gpu"][i].get<double>(), p.tokens_s_gpu, p.tokens_s_gpu * 1e-7);
    EXPECT_EQ(texts[json["points"]["parallel"][i].get<std::size_t>()], p.parallel);
    std::string command;
    for (const auto& word : json["points"]["command"][i]) {
      command += (command.empty() ? "" : " ") + texts[word.get<std::size_t>()].get<std::string>();
    }
    EXPECT_EQ(command, p.command);
    EXPECT_EQ(json["points"]["phases"][i].size(), 2u);
  }
}

TEST(HtmlPageTest, StaysUnderTwoMegabytesForTwoThousandPoints) {
  EXPECT_LT(HtmlPage(testing::SamplePlot(2000)).size(), 2'000'000u);
}

TEST(HtmlPageTest, LetsNoTextOutOfItsData) {
  PlotData data = testing::SamplePlot(3);
  const std::string evil = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>";
  data.title = data.subtitle = evil;
  data.notes = {evil};
  data.points[0].series = data.points[1].parallel = data.points[2].command = evil;
  data.points[0].facts = {{evil, evil}};
  data.points[0].phases[0].operators[0].name = data.points[0].phases[0].operators[0].bound = evil;
  const std::string page = HtmlPage(data);
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<!--<")));
  EXPECT_EQ(DataOf(page)["title"], evil);
}

TEST(HtmlPageTest, KeepsDoubledSpacesOfCommands) {
  PlotData data = testing::SamplePlot(1);
  data.points[0].command = "infercast estimate --model 'two  spaces'";
  const nlohmann::json json = DataOf(HtmlPage(data));
  std::vector<std::string> words;
  for (const auto& word : json["points"]["command"][0]) {
    words.push_back(json["texts"][word.get<std::size_t>()]);
  }
  EXPECT_THAT(words,
              ::testing::ElementsAre("infercast", "estimate", "--model", "'two", "", "spaces'"));
}

TEST(HtmlPageTest, WritesValidJsonForAnyBytesAndNumbers) {
  PlotData data = testing::SamplePlot(2);
  data.title = "broken \xFF\xC0 name";
  data.points[0].ttft_ms = std::numeric_limits<double>::quiet_NaN();
  data.points[1].tokens_s_gpu = std::numeric_limits<double>::infinity();
  const nlohmann::json json = DataOf(HtmlPage(data));
  EXPECT_TRUE(json["points"]["ttft"][0].is_null());
  EXPECT_TRUE(json["points"]["gpu"][1].is_null());
}

TEST(HtmlPageTest, RefersToNothingOutside) {
  const std::string page = HtmlPage(testing::SamplePlot(10));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("innerHTML")));
}

}  // namespace
}  // namespace infercast
