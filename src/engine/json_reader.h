// Reads JSON into structs by their field lists. For .cc files only: it brings in the JSON library.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine_spec.h"

namespace infercast::internal {

using Json = nlohmann::json;

// Each operator level adds an object, its payload and a list; the rest of a document needs few.
inline constexpr int kMaxJsonNesting = 3 * kMaxOperatorNesting + 16;

template <typename T>
concept WireStruct = requires { T::Fields(); };

// Reads values into structs; the first failure is kept as text.
class JsonReader {
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
  bool Read(const Json& json, std::uint64_t& out) {
    if (!json.is_number_unsigned()) return Expected("a non-negative 64-bit integer", json);
    out = json.get<std::uint64_t>();
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
    if (!std::apply([&](const auto&... field) { return (ReadField(json, field, out) && ...); },
                    S::Fields())) {
      return false;
    }
    if constexpr (std::is_same_v<S, EngineConfig>) return CheckBackend(out.backend);
    return true;
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
  // The configuration keeps the backend's name as text, but knows no others.
  bool CheckBackend(const std::string& name) {
    if (ParseEnum<Backend>(name)) return true;
    error = fmt::format("unknown variant `{}`, expected one of `{}` at backend", name,
                        fmt::join(EnumNames<Backend>::kNames, "`, `"));
    return false;
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
inline bool NestingIsBounded(std::string_view text) {
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

// Parses a document into T; failures are of `kind` and begin with `what`.
template <typename T>
Result<T> ParseJsonAs(std::string_view text, ErrorKind kind, std::string_view what) {
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
  JsonReader reader;
  if (!reader.Read(json, value)) return Fail(kind, fmt::format("{}: {}", what, reader.error));
  return value;
}

}  // namespace infercast::internal
