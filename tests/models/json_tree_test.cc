// JSON trees of checkpoint configurations: types, look-ups, and files that are no such thing.
#include "models/json_tree.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "models/json_long_values.h"

namespace infercast {
namespace {

using nlohmann::json;

// The tree again, as another library has it (that keeps the last of equal keys, sorted).
json ToJson(JsonView view) {
  if (view.is_object()) {
    json object = json::object();
    for (std::size_t i = 0; i < view.size(); ++i) {
      object[std::string(view.Key(i))] = ToJson(view.Item(i));
    }
    return object;
  }
  if (view.is_array()) {
    json array = json::array();
    for (std::size_t i = 0; i < view.size(); ++i) array.push_back(ToJson(view.Item(i)));
    return array;
  }
  if (const auto text = view.AsText()) return std::string(*text);
  if (const auto boolean = view.AsBool()) return *boolean;
  if (view.is_null()) return nullptr;
  return *view.AsNumber();
}

// Every number as binary64, which is what a tree answers for all of them.
json WithDoubles(const json& value) {
  if (value.is_number()) return value.get<double>();
  json out = value;
  if (value.is_structured()) {
    for (auto it = out.begin(); it != out.end(); ++it) *it = WithDoubles(*it);
  }
  return out;
}

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

TEST(JsonTree, EscapedTextsAreWhatTheyStandFor) {
  const auto tree =
      ParseJson(R"({"a\"\u00e9": "x\n\ud83d\ude00\\", "b": "é", "c": ["\t"]})", "test");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->root().Key(0), "a\"é");
  EXPECT_EQ(tree->root().Item(0).AsText(), "x\n😀\\");
  EXPECT_EQ(tree->root()["b"].AsText(), "é");
  EXPECT_EQ(tree->root()["c"].Item(0).AsText(), "\t");
}

TEST(JsonTree, RepeatedMembersShareTheirValue) {
  const auto tree = ParseJson(
      R"({"a": {"f": [1, "x"]}, "b": {"f": [1, "x"]}, "c": {"f": [1, "y"]}, "d": {"f": [1, "y"], "g": 1},
          "e": [1], "f": [1, 2], "g": [1, 2]})",
      "test");
  ASSERT_TRUE(tree) << tree.error().message;
  const JsonView root = tree->root();
  EXPECT_TRUE(AreOneValue(root["b"], root["a"]));
  EXPECT_FALSE(AreOneValue(root["c"], root["b"]));
  EXPECT_FALSE(AreOneValue(root["d"], root["c"]));
  EXPECT_FALSE(AreOneValue(root["f"], root["e"]));
  EXPECT_TRUE(AreOneValue(root["g"], root["f"]));
  EXPECT_EQ(root["b"]["f"].Item(1).AsText(), "x");
  EXPECT_EQ(root["c"]["f"].Item(1).AsText(), "y");
  EXPECT_EQ(root["d"].size(), 2u);
  EXPECT_FALSE(AreOneValue(JsonView(), JsonView()));
}

TEST(JsonTree, LongValuesOfSeveralTextsAreSharedAndOutliveTheirTexts) {
  std::string list = "[0";
  for (int i = 1; i < 9000; ++i) list += ", " + std::to_string(i);
  list += "]";
  std::string first = R"({"a": {"list": )" + list + R"(}, "b": 1})";
  std::string second = R"({"list": )" + list + R"(, "n": {"list": )" + list +
                       R"( }, "m": {"x": {"list": )" + list + "}}}";
  std::string third = R"({"list": )" + list.substr(0, list.size() - 1) + ", 1]}";
  std::optional<JsonDocument> shared, other;
  {
    for (std::string* text : {&first, &second, &third}) {
      text->reserve(text->size() + kJsonPadding);
    }
    JsonLongValues long_values;
    const auto a = ParseLenientJson(first, "first", {.padded = true}, long_values);
    const auto b = ParseLenientJson(second, "second", {.padded = true}, long_values);
    const auto c = ParseLenientJson(third, "third", {.padded = true}, long_values);
    ASSERT_TRUE(a && b && c);
    EXPECT_TRUE(AreOneValue(b->root()["list"], a->root()["a"]["list"]));
    EXPECT_TRUE(AreOneValue(b->root()["n"]["list"], a->root()["a"]["list"]));
    EXPECT_EQ(b->root()["m"]["x"]["list"].size(), 9000u);
    EXPECT_FALSE(AreOneValue(c->root()["list"], a->root()["a"]["list"]));
    shared = *b;
    other = *c;
  }
  for (std::string* text : {&first, &second, &third}) text->assign(text->size(), '?');
  EXPECT_EQ(shared->root()["list"].Item(8999).AsInteger(), 8999);
  EXPECT_EQ(shared->root()["m"]["x"]["list"].Item(17).AsInteger(), 17);
  EXPECT_EQ(other->root()["list"].size(), 9001u);
}

TEST(JsonTree, ALongValueIsNotTakenForTheMemberBeforeIt) {
  std::string list = "[0";
  for (int i = 1; i < 9000; ++i) list += ", " + std::to_string(i);
  list += "]";
  std::string first = R"({"list": )" + list + "}";
  std::string second = R"({"a": [7], "list": )" + list + R"(, "b": [7], "c": [7]})";
  for (std::string* text : {&first, &second}) text->reserve(text->size() + kJsonPadding);
  JsonLongValues long_values;
  const auto a = ParseLenientJson(first, "first", {.padded = true}, long_values);
  const auto b = ParseLenientJson(second, "second", {.padded = true}, long_values);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(AreOneValue(b->root()["list"], a->root()["list"]));
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_EQ(b->root()[key].size(), 1u) << key;
    EXPECT_EQ(b->root()[key].Item(0).AsInteger(), 7) << key;
  }
}

// Texts with a few bytes changed, dropped or doubled: what is taken, and as what, is what another
// library says.
TEST(JsonTree, TakesWhatIsJsonAndNothingElse) {
  const std::string whole =
      R"({"model": "a\u00e9b", "sizes": [1, -2, 3.5e2, 0, 9223372036854775808], "none": null,
          "layers": {"x.0": {"q": "FP8"}, "x.1": {"q": "FP8"}, "x.2": {"q": "FP8", "w": [true, false]}},
          "deep": [[[{"a": {"b": []}}]]], "empty": {}})";
  std::mt19937 random(20);
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::string_view kBytes = "{}[]\",:0-9.eEtfn\\ \n\x01\xc3";
  int taken = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string text = whole;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          text.erase(at, 1 + below(4));
          break;
        case 2:
          text.insert(at, 1, kBytes[below(kBytes.size())]);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), 1 + below(12)));
      }
    }
    const auto tree = ParseJson(text, "test");
    const json expected = json::parse(text, nullptr, false);
    ASSERT_EQ(tree.has_value(), !expected.is_discarded()) << text;
    if (!tree) continue;
    ++taken;
    ASSERT_EQ(ToJson(tree->root()), WithDoubles(expected)) << text;
  }
  EXPECT_GT(taken, 300);
}

TEST(JsonTree, LimitsDepthAndSize) {
  for (const auto& [depth, fits] : {std::pair{127, true}, std::pair{128, false}}) {
    const std::string nested = R"({"a": )" + std::string(static_cast<std::size_t>(depth), '[') +
                               std::string(static_cast<std::size_t>(depth), ']') + "}";
    EXPECT_EQ(ParseJson(nested, "config.json").has_value(), fits) << depth;
  }

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
