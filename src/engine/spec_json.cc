// JSON reader and writer driven by the structs' field lists: externally tagged operators, flat
// engine configuration, strict integers.
#include "engine/spec_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

namespace infercast {
namespace {

using Json = nlohmann::json;

// Each operator level adds an object, its payload and a list; the rest of a document needs few.
constexpr int kMaxJsonNesting = 3 * kMaxOperatorNesting + 16;

template <typename T>
concept WireStruct = requires { T::Fields(); };

// Reads values into structs; the first failure is kept as text.
class Reader {
 public:
  std::string error;

  bool Read(const Json& json, std::string& out) {
    if (!json.is_string()) return Expected("a string", json);
    out = json.get_ref<const std::string&>();
    return true;
  }
  bool Read(const Json& json, double& out) {
    if (!json.is_number()) return Expected("a number", json);
    out = json.get<double>();
    return true;
  }
  bool Read(const Json& json, bool& out) {
    if (!json.is_boolean()) return Expected("true or false", json);
    out = json.get<bool>();
    return true;
  }
  bool Read(const Json& json, std::uint32_t& out) {
    if (!json.is_number_unsigned() ||
        json.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
      return Expected("an integer from 0 to 4294967295", json);
    }
    out = static_cast<std::uint32_t>(json.get<std::uint64_t>());
    return true;
  }
  bool Read(const Json& json, std::int64_t& out) {
    const bool fits = json.is_number_unsigned()
                          ? json.get<std::uint64_t>() <=
                                static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                          : json.is_number_integer();
    if (!fits) return Expected("a 64-bit integer", json);
    out = json.get<std::int64_t>();
    return true;
  }
  template <NamedEnum E>
  bool Read(const Json& json, E& out) {
    if (!json.is_string()) return Expected("a string", json);
    const auto& name = json.get_ref<const std::string&>();
    const auto value = ParseEnum<E>(name);
    if (!value) {
      error = fmt::format("unknown variant `{}` of {}, expected one of `{}`", name,
                          EnumNames<E>::kType, fmt::join(EnumNames<E>::kNames, "`, `"));
      return false;
    }
    out = *value;
    return true;
  }
  template <typename T>
  bool Read(const Json& json, std::optional<T>& out) {
    if (json.is_null()) {
      out.reset();
      return true;
    }
    return Read(json, out.emplace());
  }
  template <typename T>
  bool Read(const Json& json, std::vector<T>& out) {
    if (!json.is_array()) return Expected("an array", json);
    out.clear();
    out.reserve(json.size());
    for (const Json& item : json) {
      if (!Read(item, out.emplace_back())) return At(fmt::format("[{}]", out.size() - 1));
    }
    return true;
  }
  bool Read(const Json& json, std::map<std::string, std::string>& out) {
    if (!json.is_object()) return Expected("an object", json);
    out.clear();
    for (const auto& [key, value] : json.items()) {
      if (!Read(value, out[key])) return At(key);
    }
    return true;
  }
  bool Read(const Json& json, Box<Operator>& out) {
    Operator op;
    if (!Read(json, op)) return false;
    out = Box<Operator>(std::move(op));
    return true;
  }
  bool Read(const Json& json, Operator& out) {
    if (!json.is_object() || json.size() != 1) {
      return Expected("an object with one member named after an operator kind", json);
    }
    if (++depth_ > kMaxOperatorNesting) {
      error = fmt::format("operators nest deeper than {} levels", kMaxOperatorNesting);
      return false;
    }
    const auto member = json.begin();
    const bool ok = ReadKind<0>(member.key(), member.value(), out);
    --depth_;
    return ok || At(member.key());
  }
  template <WireStruct S>
  bool Read(const Json& json, S& out) {
    if (!json.is_object()) return Expected("an object", json);
    return std::apply([&](const auto&... field) { return (ReadField(json, field, out) && ...); },
                      S::Fields());
  }

 private:
  template <std::size_t I>
  bool ReadKind(const std::string& name, const Json& payload, Operator& out) {
    if constexpr (I == std::variant_size_v<OperatorVariant>) {
      error = fmt::format("unknown variant `{}`, expected one of `{}`", name,
                          fmt::join(kOperatorNames, "`, `"));
      return false;
    } else {
      if (kOperatorNames[I] == name) return Read(payload, out.kind.emplace<I>());
      return ReadKind<I + 1>(name, payload, out);
    }
  }
  template <typename F, typename S>
  bool ReadField(const Json& json, const F& field, S& out) {
    const auto found = json.find(field.name);
    if (found == json.end()) {
      if (!field.required) return true;  // keeps the struct's own initial value
      error = fmt::format("missing field `{}`", field.name);
      return false;
    }
    return Read(*found, out.*field.member) || At(field.name);
  }
  bool Expected(std::string_view what, const Json& json) {
    std::string text = json.is_structured()
                           ? json.type_name()
                           : json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    error = fmt::format("expected {}, got {}", what, text);
    return false;
  }
  // Adds where the failure is. Deep documents keep the innermost places only.
  bool At(std::string_view place) {
    if (error.size() < 400) {
      error += path_started_ ? " in " : " at ";
      error += place;
      path_started_ = true;
    }
    return false;
  }

  int depth_ = 0;
  bool path_started_ = false;
};

// True when brackets nest no deeper than allowed. Checked before parsing, because the tree of a
// hostile document is expensive to build and to walk.
bool NestingIsBounded(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonNesting) return false;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return true;
}

template <typename T>
Result<T> Parse(std::string_view text, ErrorKind kind, std::string_view what) {
  if (!NestingIsBounded(text)) {
    return Fail(kind, fmt::format("{}: nests deeper than {} levels", what, kMaxJsonNesting));
  }
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    return Fail(kind, fmt::format("{}: {}", what, e.what()));
  }
  T value;
  Reader reader;
  if (!reader.Read(json, value)) return Fail(kind, fmt::format("{}: {}", what, reader.error));
  return value;
}

class Writer {
 public:
  std::string out;

  void Write(std::string_view text) {
    out += '"';
    for (const char c : text) {
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\b':
          out += "\\b";
          break;
        case '\f':
          out += "\\f";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
          } else {
            out += c;
          }
      }
    }
    out += '"';
  }
  void Write(const std::string& text) { Write(std::string_view(text)); }
  void Write(double value) {
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
    const std::size_t start = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (out.find_first_of(".e", start) == std::string::npos) out += ".0";
  }
  void Write(bool value) { out += value ? "true" : "false"; }
  void Write(std::uint32_t value) { fmt::format_to(std::back_inserter(out), "{}", value); }
  void Write(std::int64_t value) { fmt::format_to(std::back_inserter(out), "{}", value); }
  template <NamedEnum E>
  void Write(E value) {
    Write(ToString(value));
  }
  template <typename T>
  void Write(const std::optional<T>& value) {
    if (value) {
      Write(*value);
    } else {
      out += "null";
    }
  }
  template <typename T>
  void Write(const std::vector<T>& items) {
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ',';
      Write(items[i]);
    }
    out += ']';
  }
  void Write(const std::map<std::string, std::string>& map) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : map) {
      if (!std::exchange(first, false)) out += ',';
      Write(key);
      out += ':';
      Write(value);
    }
    out += '}';
  }
  void Write(const Box<Operator>& op) { Write(*op); }
  void Write(const Operator& op) {
    out += '{';
    Write(KindName(op));
    out += ':';
    std::visit([&](const auto& payload) { Write(payload); }, op.kind);
    out += '}';
  }
  template <WireStruct S>
  void Write(const S& value) {
    out += '{';
    std::apply(
        [&](const auto&... field) {
          bool first = true;
          ((out += std::exchange(first, false) ? "" : ",", Write(field.name), out += ':',
            Write(value.*field.member)),
           ...);
        },
        S::Fields());
    out += '}';
  }
};

template <typename T>
std::string ToJson(const T& value) {
  Writer writer;
  writer.Write(value);
  return std::move(writer.out);
}

}  // namespace

Result<EngineSpec> ParseEngineSpecJson(std::string_view text) {
  return Parse<EngineSpec>(text, ErrorKind::kEngineSpec, "engine spec JSON decode");
}
Result<EngineConfig> ParseEngineConfigJson(std::string_view text) {
  return Parse<EngineConfig>(text, ErrorKind::kInvalidEngineConfig, "engine config JSON decode");
}
Result<Operator> ParseOperatorJson(std::string_view text) {
  return Parse<Operator>(text, ErrorKind::kInvalidEngineConfig, "invalid operator JSON");
}
Result<std::vector<Operator>> ParseOperatorListJson(std::string_view text) {
  return Parse<std::vector<Operator>>(text, ErrorKind::kInvalidEngineConfig,
                                      "invalid op list JSON");
}

std::string WriteEngineSpecJson(const EngineSpec& spec) { return ToJson(spec); }
std::string WriteEngineConfigJson(const EngineConfig& config) { return ToJson(config); }
std::string WriteOperatorJson(const Operator& op) { return ToJson(op); }
std::string WriteOperatorListJson(const std::vector<Operator>& ops) { return ToJson(ops); }

}  // namespace infercast
