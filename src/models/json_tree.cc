// JSON trees. simdjson reads what is plainly valid, some 2 GB a second. What it rejects is read
// again through nlohmann-json's event interface, which takes integers beyond 64 bits and tells
// where a text went wrong; limits act while reading.
#include "models/json_tree.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace infercast {

bool JsonView::Truthy() const {
  if (node_ == nullptr) return false;
  switch (node_->kind) {
    case JsonNode::Kind::kNull:
      return false;
    case JsonNode::Kind::kBool:
      return node_->boolean;
    case JsonNode::Kind::kInteger:
    case JsonNode::Kind::kNumber:
      return node_->number != 0;
    case JsonNode::Kind::kText:
    case JsonNode::Kind::kArray:
    case JsonNode::Kind::kObject:
      return node_->count != 0;
  }
  return false;
}

JsonView JsonView::operator[](std::string_view key) const {
  for (std::size_t i = is_object() ? node_->count : 0; i > 0; --i) {
    if (node_->members[i - 1].key == key) return JsonView(&node_->members[i - 1].value);
  }
  return {};
}

JsonView JsonView::FirstTruthy(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const JsonView value = (*this)[key];
    if (value.Truthy()) return value;
  }
  return {};
}

JsonView JsonView::FirstPresent(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const JsonView value = (*this)[key];
    if (value.is_present()) return value;
  }
  return {};
}

std::optional<std::int64_t> JsonView::AsInteger() const {
  if (node_ == nullptr) return std::nullopt;
  if (node_->kind == JsonNode::Kind::kInteger) return node_->integer;
  if (node_->kind == JsonNode::Kind::kNumber && std::abs(node_->number) < 0x1p53 &&
      std::trunc(node_->number) == node_->number) {
    return static_cast<std::int64_t>(node_->number);
  }
  return std::nullopt;
}

std::optional<double> JsonView::AsNumber() const {
  if (Is(JsonNode::Kind::kInteger) || Is(JsonNode::Kind::kNumber)) return node_->number;
  return std::nullopt;
}

std::optional<std::string_view> JsonView::AsText() const {
  if (!is_text()) return std::nullopt;
  return std::string_view(node_->text, node_->count);
}

std::optional<bool> JsonView::AsBool() const {
  if (!Is(JsonNode::Kind::kBool)) return std::nullopt;
  return node_->boolean;
}

std::string JsonView::Display() const {
  if (node_ == nullptr) return "absent";
  switch (node_->kind) {
    case JsonNode::Kind::kNull:
      return "null";
    case JsonNode::Kind::kBool:
      return node_->boolean ? "true" : "false";
    case JsonNode::Kind::kInteger:
      return std::to_string(node_->integer);
    case JsonNode::Kind::kNumber:
      return fmt::format("{}", node_->number);
    case JsonNode::Kind::kText:
      return std::string(node_->text, node_->count);
    case JsonNode::Kind::kArray:
      return fmt::format("a list of {}", node_->count);
    case JsonNode::Kind::kObject:
      return fmt::format("an object of {}", node_->count);
  }
  return {};
}

// Memory of nodes, members and texts; released as a whole.
class JsonArena {
 public:
  template <typename T>
  const T* Copy(const T* from, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count == 0) return nullptr;
    void* to = memory_.allocate(count * sizeof(T), alignof(T));
    std::memcpy(to, from, count * sizeof(T));
    return static_cast<const T*>(to);
  }
  std::string_view CopyText(std::string_view text) {
    return {Copy(text.data(), text.size()), text.size()};
  }
  JsonNode* NewNode(const JsonNode& node) { return const_cast<JsonNode*>(Copy(&node, 1)); }

  static JsonDocument Document(std::shared_ptr<JsonArena> arena, const JsonNode& root) {
    JsonDocument document;
    document.root_ = arena->NewNode(root);
    document.arenas_.push_back(std::move(arena));
    return document;
  }

 private:
  std::pmr::monotonic_buffer_resource memory_{std::size_t{16} << 10};
};

namespace {

JsonNode IntegerNode(std::int64_t value) {
  JsonNode node;
  node.kind = JsonNode::Kind::kInteger;
  node.integer = value;
  node.number = static_cast<double>(value);
  return node;
}

JsonNode NumberNode(double value) {
  JsonNode node;
  node.kind = JsonNode::Kind::kNumber;
  node.number = value;
  return node;
}

JsonNode BoolNode(bool value) {
  JsonNode node;
  node.kind = JsonNode::Kind::kBool;
  node.boolean = value;
  return node;
}

JsonNode TextNode(JsonArena& arena, std::string_view text) {
  JsonNode node;
  node.kind = JsonNode::Kind::kText;
  node.text = arena.CopyText(text).data();
  node.count = static_cast<std::uint32_t>(text.size());
  return node;
}

JsonNode ObjectNode(JsonArena& arena, const JsonMember* members, std::size_t count) {
  JsonNode node;
  node.kind = JsonNode::Kind::kObject;
  node.members = arena.Copy(members, count);
  node.count = static_cast<std::uint32_t>(count);
  return node;
}

JsonNode ArrayNode(JsonArena& arena, const JsonNode* items, std::size_t count) {
  JsonNode node;
  node.kind = JsonNode::Kind::kArray;
  node.items = arena.Copy(items, count);
  node.count = static_cast<std::uint32_t>(count);
  return node;
}

// Turns simdjson's answer into nodes. Children gather on a stack until their number is known.
class DomReader {
 public:
  explicit DomReader(JsonArena& arena) : arena_(arena) {}

  JsonNode Read(simdjson::dom::element element) {
    using simdjson::dom::element_type;
    switch (element.type()) {
      case element_type::ARRAY: {
        const std::size_t first = items_.size();
        for (const simdjson::dom::element item : simdjson::dom::array(element)) {
          items_.push_back(Read(item));
        }
        const JsonNode node = ArrayNode(arena_, items_.data() + first, items_.size() - first);
        items_.resize(first);
        return node;
      }
      case element_type::OBJECT: {
        const std::size_t first = members_.size();
        for (const auto& [key, value] : simdjson::dom::object(element)) {
          const std::string_view name = arena_.CopyText(key);
          // Thousands of members with the same small value in a row share it.
          const bool repeats = members_.size() > first && IsSame(members_.back().value, value);
          members_.push_back({name, repeats ? members_.back().value : Read(value)});
        }
        const JsonNode node = ObjectNode(arena_, members_.data() + first, members_.size() - first);
        members_.resize(first);
        return node;
      }
      case element_type::INT64:
        return IntegerNode(std::int64_t(element));
      case element_type::UINT64:  // only what int64 does not hold
        return NumberNode(static_cast<double>(std::uint64_t(element)));
      case element_type::DOUBLE:
        return NumberNode(double(element));
      case element_type::STRING:
        return TextNode(arena_, std::string_view(element));
      case element_type::BOOL:
        return BoolNode(bool(element));
      case element_type::NULL_VALUE:
        break;
    }
    return {};
  }

 private:
  // Texts, and objects of one member that is a text.
  static bool IsSame(const JsonNode& node, simdjson::dom::element element) {
    using simdjson::dom::element_type;
    if (node.kind == JsonNode::Kind::kText) {
      return element.type() == element_type::STRING &&
             std::string_view(element) == std::string_view(node.text, node.count);
    }
    if (node.kind != JsonNode::Kind::kObject || node.count != 1 ||
        node.members->value.kind != JsonNode::Kind::kText ||
        element.type() != element_type::OBJECT) {
      return false;
    }
    const simdjson::dom::object object(element);
    if (object.size() != 1) return false;
    const auto& [key, value] = *object.begin();
    return key == node.members->key && IsSame(node.members->value, value);
  }

  JsonArena& arena_;
  std::vector<JsonNode> items_;
  std::vector<JsonMember> members_;
};

// The same from events, for texts that simdjson rejects.
class EventReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  EventReader(JsonArena& arena, std::size_t max_depth) : arena_(arena), max_depth_(max_depth) {}

  bool null() override { return Add({}); }
  bool boolean(bool value) override { return Add(BoolNode(value)); }
  bool number_integer(number_integer_t value) override { return Add(IntegerNode(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return Add(NumberNode(static_cast<double>(value)));
    }
    return Add(IntegerNode(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(NumberNode(value));
  }
  bool string(string_t& value) override { return Add(TextNode(arena_, value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(true); }
  bool start_array(std::size_t) override { return Open(false); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    open_.back().key = arena_.CopyText(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_ = fmt::format("is not valid JSON (at byte {})", position);
    return false;
  }

  const JsonNode& root() const { return root_; }
  const std::string& error() const { return error_; }

 private:
  struct Container {
    bool object = false;
    std::string_view key;  // of the member that is being read
    std::vector<JsonNode> items;
    std::vector<JsonMember> members;
  };

  bool Add(const JsonNode& node) {
    if (open_.empty()) {
      root_ = node;
    } else if (Container& parent = open_.back(); parent.object) {
      parent.members.push_back({parent.key, node});
    } else {
      parent.items.push_back(node);
    }
    return true;
  }
  bool Open(bool object) {
    if (open_.size() >= max_depth_) {
      error_ = fmt::format("nests deeper than {} levels", max_depth_);
      return false;
    }
    open_.emplace_back().object = object;
    return true;
  }
  bool Close() {
    const Container& done = open_.back();
    const JsonNode node = done.object ? ObjectNode(arena_, done.members.data(), done.members.size())
                                      : ArrayNode(arena_, done.items.data(), done.items.size());
    open_.pop_back();
    return Add(node);
  }

  JsonArena& arena_;
  std::size_t max_depth_;
  std::vector<Container> open_;
  JsonNode root_;
  std::string error_;
};

// simdjson's buffers, kept for the next text unless they are unusually large.
class WarmParser {
 public:
  std::optional<simdjson::dom::element> Parse(std::string_view text, const JsonLimits& limits) {
    // simdjson counts the level on which it would fail.
    if (limits.max_depth + 1 != parser_.max_depth() || text.size() > parser_.capacity()) {
      if (parser_.allocate(text.size(), limits.max_depth + 1) != simdjson::SUCCESS) return {};
    }
    simdjson::dom::element element;
    if (parser_.parse(text.data(), text.size(), !limits.padded).get(element) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    return element;
  }
  void Trim() {
    constexpr std::size_t kMost = std::size_t{8} << 20;
    if (parser_.capacity() > kMost) parser_ = simdjson::dom::parser();
  }

 private:
  simdjson::dom::parser parser_;
};

// Nothing when simdjson does not take the text.
std::optional<JsonDocument> ParseQuickly(std::string_view text, const JsonLimits& limits) {
  static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);
  thread_local WarmParser parser;
  std::optional<JsonDocument> document;
  if (const std::optional<simdjson::dom::element> element = parser.Parse(text, limits)) {
    auto arena = std::make_shared<JsonArena>();
    const JsonNode root = DomReader(*arena).Read(*element);
    document = JsonArena::Document(std::move(arena), root);
  }
  parser.Trim();
  return document;
}

Result<JsonDocument> ParseCarefully(std::string_view text, std::string_view what,
                                    const JsonLimits& limits) {
  auto arena = std::make_shared<JsonArena>();
  EventReader reader(*arena, limits.max_depth);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return Fail(ErrorKind::kModelConfig, fmt::format("{} {}", what, reader.error()));
  }
  return JsonArena::Document(std::move(arena), reader.root());
}

Status CheckSize(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() <= limits.max_bytes) return {};
  return Fail(ErrorKind::kModelConfig, fmt::format("{} is too large: {} bytes, at most {} are read",
                                                   what, text.size(), limits.max_bytes));
}

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void ReplaceWord(std::string& text, std::string_view word, std::string_view replacement) {
  std::size_t at = text.find(word);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t copied = 0;
  for (; at != std::string::npos; at = text.find(word, at)) {
    const std::size_t end = at + word.size();
    const bool whole = (at == 0 || !IsWordCharacter(text[at - 1])) &&
                       (end == text.size() || !IsWordCharacter(text[end]));
    if (whole) {
      out.append(text, copied, at - copied);
      out += replacement;
      copied = end;
    }
    at = end;
  }
  out.append(text, copied);
  text = std::move(out);
}

}  // namespace

JsonDocument::JsonDocument() : arenas_{std::make_shared<JsonArena>()} {
  root_ = arenas_.front()->NewNode({});
}

void JsonDocument::Set(std::string_view key, JsonView value) {
  const JsonNode node = value.exists() ? *value.node() : JsonNode{};
  std::vector<JsonMember> members;
  if (root().is_object()) members.assign(root_->members, root_->members + root_->count);
  std::size_t i = members.size();
  while (i > 0 && members[i - 1].key != key) --i;
  if (i > 0) {
    members[i - 1].value = node;
  } else {
    members.push_back({arenas_.front()->CopyText(key), node});
  }
  *root_ = ObjectNode(*arenas_.front(), members.data(), members.size());
}

void JsonDocument::SetText(std::string_view key, std::string_view text) {
  const JsonNode node = TextNode(*arenas_.front(), text);
  Set(key, JsonView(&node));
}

JsonView JsonDocument::Adopt(JsonDocument other) {
  arenas_.insert(arenas_.end(), other.arenas_.begin(), other.arenas_.end());
  return other.root();
}

Result<JsonDocument> ParseJson(std::string_view text, std::string_view what, JsonLimits limits) {
  IC_RETURN_IF_ERROR(CheckSize(text, what, limits));
  if (std::optional<JsonDocument> document = ParseQuickly(text, limits))
    return *std::move(document);
  return ParseCarefully(text, what, limits);
}

Result<JsonDocument> ParseLenientJson(std::string_view text, std::string_view what,
                                      JsonLimits limits) {
  IC_RETURN_IF_ERROR(CheckSize(text, what, limits));
  // Valid JSON has such words at most inside strings, where no configuration keeps a value.
  if (std::optional<JsonDocument> document = ParseQuickly(text, limits))
    return *std::move(document);
  return ParseCarefully(ReplaceNonFiniteLiterals(std::string(text)), what, limits);
}

std::string ReplaceNonFiniteLiterals(std::string text) {
  ReplaceWord(text, "Infinity", "null");
  ReplaceWord(text, "NaN", "null");
  return text;
}

}  // namespace infercast
