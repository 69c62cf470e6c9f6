// A small read-only JSON tree for checkpoint configurations: members keep their file order, absent
// and null stay apart, and depth and size are limited so that a hostile file is an error and not a
// crash. Nodes are a few words each and live in their document's arena, since some checkpoints list
// the number format of each of their 20,000 matrices. The parsers behind it are private to
// json_tree.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace infercast {

struct JsonMember;

// One value. Made by JsonDocument, which owns what the pointers point to.
struct JsonNode {
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kNumber, kText, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::uint32_t count = 0;  // bytes of a text, items of an array, members of an object
  union {
    std::int64_t integer = 0;
    const char* text;
    const JsonNode* items;
    const JsonMember* members;
  };
  double number = 0;  // of both number kinds
};

struct JsonMember {
  std::string_view key;
  JsonNode value;
};

// One position in a tree, or the absence of one: looking up in an absent or wrong-typed value gives
// absence again, so a chain of look-ups needs one test at its end. The document must outlive the
// view.
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

  // The last member of that name, or absence.
  JsonView operator[](std::string_view key) const;
  // First of `keys` whose value is truthy / present (not null), or absence.
  JsonView FirstTruthy(std::initializer_list<std::string_view> keys) const;
  JsonView FirstPresent(std::initializer_list<std::string_view> keys) const;

  // Items of an array, members of an object; 0 for anything else.
  std::size_t size() const { return is_array() || is_object() ? node_->count : 0; }
  // i < size().
  JsonView Item(std::size_t i) const {
    return JsonView(is_array() ? &node_->items[i] : &node_->members[i].value);
  }
  std::string_view Key(std::size_t i) const { return node_->members[i].key; }

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

// Owns the values of one or more parsed texts. Moving it keeps views valid.
class JsonDocument {
 public:
  JsonDocument();  // null

  JsonView root() const { return JsonView(root_); }

  // Replaces or appends a member of the root, which becomes an object. `value` must be of this
  // document or of one that it adopted.
  void Set(std::string_view key, JsonView value);
  void SetText(std::string_view key, std::string_view text);

  // Takes over another document's values; its root, which lives as long as this document.
  JsonView Adopt(JsonDocument other);

 private:
  friend class JsonArena;

  std::vector<std::shared_ptr<class JsonArena>> arenas_;
  JsonNode* root_ = nullptr;
};

inline constexpr std::size_t kJsonPadding = 64;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t max_depth = 128;
  bool padded = false;  // kJsonPadding readable bytes follow the text, so that it is not copied
};

// Parses one document. kModelConfig (naming `what` and the position) when the text is not JSON, is
// too large or nests too deeply.
Result<JsonDocument> ParseJson(std::string_view text, std::string_view what,
                               JsonLimits limits = {});

// The same for texts with the bare words NaN and Infinity, which Python writes into such files:
// they become null, textually, as the checkpoint readers of the field do it.
Result<JsonDocument> ParseLenientJson(std::string_view text, std::string_view what,
                                      JsonLimits limits = {});

// Replaces the words (whole ones, also inside strings) by null.
std::string ReplaceNonFiniteLiterals(std::string text);

}  // namespace infercast
