#include "search/workload_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace infercast {
namespace {

using ::testing::HasSubstr;

TEST(WorkloadsTest, ReadsPresetsWithShares) {
  const auto kinds = ParseWorkloads("chat,rag=2.5");
  ASSERT_TRUE(kinds) << kinds.error().message;
  ASSERT_EQ(kinds->size(), 2u);
  EXPECT_EQ((*kinds)[0].name, "chat");
  EXPECT_EQ((*kinds)[0].share, 1);
  EXPECT_EQ((*kinds)[1].workload.isl, 6000);
  EXPECT_EQ((*kinds)[1].share, 2.5);
}

TEST(WorkloadsTest, HelpsWithUnknownNamesAndBadShares) {
  const auto unknown = ParseWorkloads("chatt");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnknownName);
  EXPECT_THAT(unknown.error().message, HasSubstr("chat"));
  for (const char* text : {"chat=0", "chat=-1", "chat=x", "chat=", "chat=nan"}) {
    EXPECT_EQ(ParseWorkloads(text).error().kind, ErrorKind::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseWorkloads(""));
  EXPECT_FALSE(ParseWorkloads("chat,"));
}

TEST(WorkloadsTest, ReadsOwnMixes) {
  const auto kinds = ParseWorkloadYaml(
      "chat: {share: 3}\ncontracts: {isl: 24000, osl: 800, prefix_hit: 0.25, ttft: 5000}\n", "mix");
  ASSERT_TRUE(kinds) << kinds.error().message;
  EXPECT_EQ((*kinds)[0].share, 3);
  EXPECT_EQ((*kinds)[0].workload.osl, 400);
  EXPECT_EQ((*kinds)[1].workload.prefix, 6000);
  EXPECT_EQ((*kinds)[1].ttft, 5000);
  EXPECT_FALSE((*kinds)[1].tpot);
}

TEST(WorkloadsTest, RefusesBrokenMixes) {
  const auto error = [](const char* text) { return ParseWorkloadYaml(text, "mix").error(); };
  EXPECT_EQ(error("[1]").kind, ErrorKind::kYaml);
  EXPECT_EQ(error("a: [").kind, ErrorKind::kYaml);
  EXPECT_EQ(error("a: {isl: many, osl: 1}").kind, ErrorKind::kYaml);
  EXPECT_THAT(error("a: {isl: 100}").message, HasSubstr("no osl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, oslo: 3}").message, HasSubstr("osl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, prefix: 100}").message, HasSubstr("shorter than isl"));
  EXPECT_THAT(error("a: {isl: 100, osl: 1, prefix_hit: 1.5}").message, HasSubstr("prefix_hit"));
  EXPECT_THAT(error("mine: {share: 2}").message, HasSubstr("unknown workload 'mine'"));
  EXPECT_EQ(ReadWorkloads("/nonexistent/mix.yaml").error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace infercast
