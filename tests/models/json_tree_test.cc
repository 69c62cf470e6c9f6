// JSON trees of checkpoint configurations: types, look-ups, and files that are no such thing.
#include "models/json_tree.h"

#include <gtest/gtest.h>

namespace infercast {
namespace {

TEST(JsonTree, KeepsOrderTypesAndTheLastOfEqualKeys) {
  const auto tree = ParseJson(
      R"({"b": 1, "a": [true, null, "x", 2.5], "b": 18446744073709551615, "c": 4.0})", "test");
  ASSERT_TRUE(tree) << tree.error().message;
  const JsonView root = tree->root();
  EXPECT_EQ(root.Key(0), "b");
  EXPECT_EQ(root.Key(1), "a");
  EXPECT_EQ(root["b"].AsInteger(), std::nullopt);  // does not fit
  EXPECT_DOUBLE_EQ(*root["b"].AsNumber(), 18446744073709551615.0);
  EXPECT_EQ(root["c"].AsInteger(), 4);
  const JsonView a = root["a"];
  ASSERT_EQ(a.size(), 4u);
  EXPECT_EQ(a.Item(0).AsBool(), true);
  EXPECT_TRUE(a.Item(1).is_null());
  EXPECT_EQ(a.Item(2).AsText(), "x");
  EXPECT_EQ(a.Item(3).AsInteger(), std::nullopt);
}

TEST(JsonTree, LookingIntoWhatIsNotThereIsAbsence) {
  const auto tree = ParseJson(R"({"a": 1, "n": null})", "test");
  ASSERT_TRUE(tree);
  const JsonView root = tree->root();
  EXPECT_FALSE(root["x"]["y"]["z"].exists());
  EXPECT_FALSE(root["a"]["b"].exists());
  EXPECT_TRUE(root["n"].exists());
  EXPECT_FALSE(root["n"].is_present());
  EXPECT_EQ(root["x"].size(), 0u);
  EXPECT_EQ(root.FirstPresent({"n", "a"}).AsInteger(), 1);
}

TEST(JsonTree, TruthFollowsTheConventionsOfCheckpointReaders) {
  const auto tree =
      ParseJson(R"([0, 0.0, "", [], {}, null, false, 1, "a", [0], {"a": 0}, true])", "test");
  ASSERT_TRUE(tree);
  const JsonView list = tree->root();
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list.Item(i).Truthy(), i >= 7) << i;
}

TEST(JsonTree, RejectsWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "{} {}", "\"\x80\"", "[-null]"}) {
    const auto tree = ParseJson(text, "config.json");
    ASSERT_FALSE(tree) << text;
    EXPECT_EQ(tree.error().kind, ErrorKind::kModelConfig);
    EXPECT_NE(tree.error().message.find("config.json"), std::string::npos);
  }
}

TEST(JsonTree, LimitsDepthAndSize) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto too_deep = ParseJson(deep, "config.json");
  ASSERT_FALSE(too_deep);
  EXPECT_NE(too_deep.error().message.find("nests deeper"), std::string::npos);

  const auto too_large = ParseJson("[1, 2, 3, 4]", "config.json", {.max_bytes = 8});
  ASSERT_FALSE(too_large);
  EXPECT_NE(too_large.error().message.find("too large"), std::string::npos);
}

TEST(JsonTree, NonFiniteWordsBecomeNull) {
  EXPECT_EQ(ReplaceNonFiniteLiterals(R"({"a": NaN, "b": Infinity, "c": [NaN,NaN]})"),
            R"({"a": null, "b": null, "c": [null,null]})");
  EXPECT_EQ(ReplaceNonFiniteLiterals(R"({"NaNs": "xInfinity", "Infinity_": 1})"),
            R"({"NaNs": "xInfinity", "Infinity_": 1})");
}

}  // namespace
}  // namespace infercast
