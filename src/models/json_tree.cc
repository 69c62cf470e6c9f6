// JSON trees. simdjson walks what is plainly valid, a gigabyte a second and more. What it rejects
// is read again through nlohmann-json's event interface, which takes integers beyond 64 bits and
// tells where a text went wrong; limits act while reading.
#include "models/json_tree.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "models/json_long_values.h"

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

  // `others`: arenas that hold nodes below the root, too.
  static JsonDocument Document(std::shared_ptr<JsonArena> arena, const JsonNode& root,
                               const std::vector<std::shared_ptr<JsonArena>>& others = {}) {
    JsonDocument document;
    document.root_ = arena->NewNode(root);
    document.arenas_.push_back(std::move(arena));
    document.arenas_.insert(document.arenas_.end(), others.begin(), others.end());
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

}  // namespace

// Turns what simdjson walks over into nodes; every value is visited, so that all of the text is
// checked, except where its like was before. Children gather on a stack until their number is
// known.
class JsonWalker {
 public:
  // A text of whole values behind which readable bytes follow. The stacks keep their memory from
  // one text to the next.
  std::optional<JsonDocument> Read(simdjson::ondemand::document& document, std::string_view text,
                                   std::size_t max_depth, JsonLongValues* long_values) {
    arena_ = std::make_shared<JsonArena>();
    end_ = text.data() + text.size();
    max_depth_ = max_depth;
    long_values_ = long_values;
    sharing_.clear();
    items_.clear();
    members_.clear();
    simdjson::ondemand::object object;
    JsonNode root;
    if (document.get_object().get(object) != simdjson::SUCCESS || !ReadObject(object, 0, root) ||
        document.current_location().error() != simdjson::OUT_OF_BOUNDS) {  // something follows
      return std::nullopt;
    }
    return JsonArena::Document(std::move(arena_), root, sharing_);
  }
  void Trim() {
    constexpr std::size_t kMost = 32768;
    arena_ = nullptr;
    sharing_.clear();
    if (items_.capacity() > kMost) items_ = {};
    if (members_.capacity() > kMost) members_ = {};
  }

 private:
  using Value = simdjson::ondemand::value;

  // False where simdjson refuses, or nests too deeply.
  bool ReadValue(Value& value, std::size_t depth, JsonNode& out) {
    using simdjson::ondemand::json_type;
    json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS) return false;
    switch (type) {
      case json_type::array: {
        simdjson::ondemand::array array;
        return value.get_array().get(array) == simdjson::SUCCESS && ReadArray(array, depth, out);
      }
      case json_type::object: {
        simdjson::ondemand::object object;
        return value.get_object().get(object) == simdjson::SUCCESS &&
               ReadObject(object, depth, out);
      }
      case json_type::number:
        return ReadNumber(value, out);
      case json_type::string:
        return ReadText(value, out);
      case json_type::boolean: {
        bool boolean = false;
        if (value.get_bool().get(boolean) != simdjson::SUCCESS) return false;
        out = BoolNode(boolean);
        return true;
      }
      case json_type::null: {
        bool null = false;
        out = {};
        return value.is_null().get(null) == simdjson::SUCCESS && null;
      }
      default:
        return false;
    }
  }

  bool ReadArray(simdjson::ondemand::array& array, std::size_t depth, JsonNode& out) {
    if (depth >= max_depth_) return false;
    const std::size_t first = items_.size();
    for (auto item : array) {
      Value value;
      JsonNode node;
      if (item.get(value) != simdjson::SUCCESS || !ReadValue(value, depth + 1, node)) return false;
      items_.push_back(node);
    }
    out = ArrayNode(*arena_, items_.data() + first, items_.size() - first);
    items_.resize(first);
    return true;
  }

  bool ReadObject(simdjson::ondemand::object& object, std::size_t depth, JsonNode& out) {
    if (depth >= max_depth_) return false;
    const std::size_t first = members_.size();
    std::string_view before;  // the text of the list or object of the member before
    for (auto next : object) {
      simdjson::ondemand::field field;
      JsonMember member;
      if (std::move(next).get(field) != simdjson::SUCCESS || !ReadKey(field, member.key)) {
        return false;
      }
      Value& value = field.value();
      const char* begin = value.raw_json_token().data();
      const bool nested = *begin == '{' || *begin == '[';
      if (nested && StartsWith(begin, before)) {
        member.value = members_.back().value;  // and simdjson skips it
      } else {
        before = {};
        if (!nested || !FindLongValue(begin, depth, member.value)) {
          if (!ReadValue(value, depth + 1, member.value)) return false;
          const char* past = nullptr;
          if (nested) {
            if (value.current_location().get(past) != simdjson::SUCCESS) return false;
            before = {begin, static_cast<std::size_t>(past - begin)};
            KeepLongValue(before, depth, member.value);
          }
        }
      }
      members_.push_back(member);
    }
    out = ObjectNode(*arena_, members_.data() + first, members_.size() - first);
    members_.resize(first);
    return true;
  }

  // Whether a list or object that begins there is spelt as `text`, a whole one (and, since it ends
  // with its bracket, no part of a longer one).
  bool StartsWith(const char* begin, std::string_view text) const {
    return !text.empty() && static_cast<std::size_t>(end_ - begin) >= text.size() &&
           std::memcmp(begin, text.data(), text.size()) == 0;
  }

  bool FindLongValue(const char* begin, std::size_t depth, JsonNode& out) {
    if (long_values_ == nullptr) return false;
    for (const JsonLongValues::Value& known : long_values_->values_) {
      // Not deeper than there, so that the depth stays within the limit.
      if (depth > known.depth || !StartsWith(begin, known.text)) continue;
      out = known.node;
      if (known.arena != arena_) sharing_.push_back(known.arena);
      return true;
    }
    return false;
  }

  void KeepLongValue(std::string_view text, std::size_t depth, const JsonNode& node) {
    constexpr std::size_t kLong = 16384;
    constexpr std::size_t kMost = 16;
    if (long_values_ == nullptr || text.size() < kLong || long_values_->values_.size() >= kMost) {
      return;
    }
    long_values_->values_.push_back({text, depth, node, arena_});
  }

  // By the text's own form: simdjson 3.0 misreads long fractions when asked to tell the kind.
  static bool ReadNumber(Value& value, JsonNode& out) {
    if (value.raw_json_token().find_first_of(".eE") != std::string_view::npos) {
      double number = 0;
      if (value.get_double().get(number) != simdjson::SUCCESS) return false;
      out = NumberNode(number);
      return true;
    }
    std::int64_t integer = 0;
    if (value.get_int64().get(integer) != simdjson::SUCCESS) return false;  // or beyond 64 bits
    out = IntegerNode(integer);
    return true;
  }

  bool ReadText(Value& value, JsonNode& out) {
    std::string_view text;
    if (PlainText(value.raw_json_token().data() + 1, text)) {
      simdjson::ondemand::raw_json_string raw;
      if (value.get_raw_json_string().get(raw) != simdjson::SUCCESS) return false;
    } else if (value.get_string().get(text) != simdjson::SUCCESS) {
      return false;
    }
    out = TextNode(*arena_, text);
    return true;
  }

  bool ReadKey(simdjson::ondemand::field& field, std::string_view& out) {
    std::string_view key;
    if (!PlainText(field.key().raw(), key) && field.unescaped_key().get(key) != simdjson::SUCCESS) {
      return false;
    }
    out = arena_->CopyText(key);
    return true;
  }

  // A string's characters from behind its opening quote, unless some are escaped.
  bool PlainText(const char* begin, std::string_view& out) const {
    const auto room = static_cast<std::size_t>(end_ - begin);
    const auto* quote = static_cast<const char*>(std::memchr(begin, '"', room));
    if (quote == nullptr) return false;
    const auto length = static_cast<std::size_t>(quote - begin);
    if (std::memchr(begin, '\\', length) != nullptr) return false;
    out = {begin, length};
    return true;
  }

  std::shared_ptr<JsonArena> arena_;
  std::vector<std::shared_ptr<JsonArena>> sharing_;  // arenas of long values that are used again
  const char* end_ = nullptr;
  std::size_t max_depth_ = 0;
  JsonLongValues* long_values_ = nullptr;
  std::vector<JsonNode> items_;
  std::vector<JsonMember> members_;
};

namespace {

// Nodes from events, for texts that simdjson rejects.
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

// simdjson's buffers and ours, kept for the next text unless they are unusually large.
class WarmParser {
 public:
  std::optional<JsonDocument> Read(std::string_view text, const JsonLimits& limits,
                                   JsonLongValues* long_values) {
    if (!limits.padded) {
      copy_.reserve(text.size() + kJsonPadding);
      copy_ = text;
      text = copy_;
      long_values = nullptr;  // the copy does not last
    }
    simdjson::ondemand::document document;
    const simdjson::padded_string_view padded(text.data(), text.size(), text.size() + kJsonPadding);
    if (parser_.iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
    return walker_.Read(document, text, limits.max_depth, long_values);
  }
  void Trim() {
    constexpr std::size_t kMost = std::size_t{8} << 20;
    if (parser_.capacity() > kMost) parser_ = simdjson::ondemand::parser();
    if (copy_.capacity() > kMost) copy_ = {};
    walker_.Trim();
  }

 private:
  simdjson::ondemand::parser parser_;
  std::string copy_;
  JsonWalker walker_;
};

// Nothing when simdjson does not take the text, or it is no object.
std::optional<JsonDocument> ParseQuickly(std::string_view text, const JsonLimits& limits,
                                         JsonLongValues* long_values) {
  static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);
  thread_local WarmParser parser;
  std::optional<JsonDocument> document = parser.Read(text, limits, long_values);
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

namespace {

Result<JsonDocument> ParseLeniently(std::string_view text, std::string_view what,
                                    const JsonLimits& limits, JsonLongValues* long_values) {
  IC_RETURN_IF_ERROR(CheckSize(text, what, limits));
  // Valid JSON has such words at most inside strings, where no configuration keeps a value.
  if (std::optional<JsonDocument> document = ParseQuickly(text, limits, long_values)) {
    return *std::move(document);
  }
  return ParseCarefully(ReplaceNonFiniteLiterals(std::string(text)), what, limits);
}

}  // namespace

Result<JsonDocument> ParseJson(std::string_view text, std::string_view what, JsonLimits limits) {
  IC_RETURN_IF_ERROR(CheckSize(text, what, limits));
  if (std::optional<JsonDocument> document = ParseQuickly(text, limits, nullptr)) {
    return *std::move(document);
  }
  return ParseCarefully(text, what, limits);
}

Result<JsonDocument> ParseLenientJson(std::string_view text, std::string_view what,
                                      JsonLimits limits) {
  return ParseLeniently(text, what, limits, nullptr);
}

Result<JsonDocument> ParseLenientJson(std::string_view text, std::string_view what,
                                      JsonLimits limits, JsonLongValues& long_values) {
  return ParseLeniently(text, what, limits, &long_values);
}

bool AreOneValue(JsonView a, JsonView b) {
  return (a.is_array() || a.is_object()) && b.exists() && a.node()->kind == b.node()->kind &&
         a.node()->count == b.node()->count && a.node()->items == b.node()->items;
}

std::string ReplaceNonFiniteLiterals(std::string text) {
  ReplaceWord(text, "Infinity", "null");
  ReplaceWord(text, "NaN", "null");
  return text;
}

}  // namespace infercast
