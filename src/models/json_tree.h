// A small read-only JSON tree for checkpoint configurations: members keep their file order, absent
// and null stay apart, and depth and size are limited so that a hostile file is an error and not a
// crash. The parser behind it is private to json_tree.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

struct JsonNode {
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kNumber, kText, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  // of both number kinds
  std::string text;
  std::vector<std::string> keys;  // of an object: keys[i] names items[i]
  std::vector<JsonNode> items;    // of an array or object

  static JsonNode Text(std::string value);
  static JsonNode Bool(bool value);
  static JsonNode Object();

  const JsonNode* Find(std::string_view key) const;  // the last member of that name, or null
  void Set(std::string_view key, JsonNode value);    // replaces or appends; makes this an object
};

// One position in a tree, or the absence of one: looking up in an absent or wrong-typed value gives
// absence again, so a chain of look-ups needs one test at its end. The tree must outlive the view.
class JsonView {
 public:
  JsonView() = default;
  explicit JsonView(const JsonNode* node) : node_(node) {}

  bool exists() const { return node_ != nullptr; }
  bool is_null() const { return node_ != nullptr && node_->kind == JsonNode::Kind::kNull; }
  bool is_present() const { return exists() && !is_null(); }
  bool is_object() const { return Is(JsonNode::Kind::kObject); }
  bool is_array() const { return Is(JsonNode::Kind::kArray); }
  bool is_text() const { return Is(JsonNode::Kind::kText); }
  const JsonNode* node() const { return node_; }

  // Absent, null, false, 0, "", [] and {} are false; everything else is true.
  bool Truthy() const;

  JsonView operator[](std::string_view key) const;
  // First of `keys` whose value is truthy / present (not null), or absence.
  JsonView FirstTruthy(std::initializer_list<std::string_view> keys) const;
  JsonView FirstPresent(std::initializer_list<std::string_view> keys) const;

  std::size_t size() const { return node_ == nullptr ? 0 : node_->items.size(); }
  JsonView Item(std::size_t i) const { return JsonView(&node_->items[i]); }
  std::string_view Key(std::size_t i) const { return node_->keys[i]; }

  // The value when it has that type. Integers also from integral floating-point numbers.
  std::optional<std::int64_t> AsInteger() const;
  std::optional<double> AsNumber() const;
  std::optional<std::string_view> AsText() const;
  std::optional<bool> AsBool() const;

  // Text as a person would write the value ("null", "fp8", "128", "[...]").
  std::string Display() const;

 private:
  bool Is(JsonNode::Kind kind) const { return node_ != nullptr && node_->kind == kind; }
  const JsonNode* node_ = nullptr;
};

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t max_depth = 128;
};

// Parses one document. kModelConfig (naming `what` and the position) when the text is not JSON, is
// too large or nests too deeply.
Result<JsonNode> ParseJson(std::string_view text, std::string_view what, JsonLimits limits = {});

// The bare words NaN and Infinity, which Python writes into such files, become null. The
// replacement is textual (whole words, also inside strings), as the checkpoint readers of the field
// do it.
std::string ReplaceNonFiniteLiterals(std::string text);

}  // namespace infercast
