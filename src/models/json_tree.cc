// JSON tree: built from the event interface of nlohmann-json, so that limits act while reading.
#include "models/json_tree.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace infercast {

JsonNode JsonNode::Text(std::string value) {
  JsonNode node;
  node.kind = Kind::kText;
  node.text = std::move(value);
  return node;
}

JsonNode JsonNode::Bool(bool value) {
  JsonNode node;
  node.kind = Kind::kBool;
  node.boolean = value;
  return node;
}

JsonNode JsonNode::Object() {
  JsonNode node;
  node.kind = Kind::kObject;
  return node;
}

const JsonNode* JsonNode::Find(std::string_view key) const {
  for (std::size_t i = keys.size(); i > 0; --i) {
    if (keys[i - 1] == key) return &items[i - 1];
  }
  return nullptr;
}

void JsonNode::Set(std::string_view key, JsonNode value) {
  kind = Kind::kObject;
  for (std::size_t i = keys.size(); i > 0; --i) {
    if (keys[i - 1] == key) {
      items[i - 1] = std::move(value);
      return;
    }
  }
  keys.emplace_back(key);
  items.push_back(std::move(value));
}

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
      return !node_->text.empty();
    case JsonNode::Kind::kArray:
    case JsonNode::Kind::kObject:
      return !node_->items.empty();
  }
  return false;
}

JsonView JsonView::operator[](std::string_view key) const {
  return is_object() ? JsonView(node_->Find(key)) : JsonView();
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
  return node_->text;
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
      return node_->text;
    case JsonNode::Kind::kArray:
      return fmt::format("a list of {}", node_->items.size());
    case JsonNode::Kind::kObject:
      return fmt::format("an object of {}", node_->items.size());
  }
  return {};
}

namespace {

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(std::size_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return Add(JsonNode{}); }
  bool boolean(bool value) override { return Add(JsonNode::Bool(value)); }
  bool number_integer(number_integer_t value) override { return AddInteger(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return AddNumber(static_cast<double>(value));
    }
    return AddInteger(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return AddNumber(value); }
  bool string(string_t& value) override { return Add(JsonNode::Text(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(JsonNode::Kind::kObject); }
  bool start_array(std::size_t) override { return Open(JsonNode::Kind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_ = fmt::format("is not valid JSON (at byte {})", position);
    return false;
  }

  JsonNode root_;
  std::string error_;

 private:
  bool AddInteger(std::int64_t value) {
    JsonNode node;
    node.kind = JsonNode::Kind::kInteger;
    node.integer = value;
    node.number = static_cast<double>(value);
    return Add(std::move(node));
  }
  bool AddNumber(double value) {
    JsonNode node;
    node.kind = JsonNode::Kind::kNumber;
    node.number = value;
    return Add(std::move(node));
  }
  bool Add(JsonNode node) {
    Place(std::move(node));
    return true;
  }
  JsonNode& Place(JsonNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return root_;
    }
    JsonNode& parent = *open_.back();
    if (parent.kind == JsonNode::Kind::kObject) parent.keys.push_back(std::move(key_));
    return parent.items.emplace_back(std::move(node));
  }
  bool Open(JsonNode::Kind kind) {
    if (open_.size() >= max_depth_) {
      error_ = fmt::format("nests deeper than {} levels", max_depth_);
      return false;
    }
    JsonNode node;
    node.kind = kind;
    // A parent's items never grow while a child is open, so the pointers stay valid.
    open_.push_back(&Place(std::move(node)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  std::vector<JsonNode*> open_;
  std::string key_;
};

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

Result<JsonNode> ParseJson(std::string_view text, std::string_view what, JsonLimits limits) {
  if (text.size() > limits.max_bytes) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("{} is too large: {} bytes, at most {} are read", what, text.size(),
                            limits.max_bytes));
  }
  TreeBuilder builder(limits.max_depth);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return Fail(ErrorKind::kModelConfig, fmt::format("{} {}", what, builder.error_));
  }
  return std::move(builder.root_);
}

std::string ReplaceNonFiniteLiterals(std::string text) {
  ReplaceWord(text, "Infinity", "null");
  ReplaceWord(text, "NaN", "null");
  return text;
}

}  // namespace infercast
