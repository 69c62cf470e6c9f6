// JSON reader and writer driven by the structs' field lists: externally tagged operators, flat
// engine configuration, strict integers.
#include "engine/spec_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "engine/json_reader.h"

namespace infercast {
namespace {

template <typename T>
concept WireStruct = requires { T::Fields(); };

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
  return internal::ParseJsonAs<EngineSpec>(text, ErrorKind::kEngineSpec, "engine spec JSON decode");
}
Result<EngineConfig> ParseEngineConfigJson(std::string_view text) {
  return internal::ParseJsonAs<EngineConfig>(text, ErrorKind::kInvalidEngineConfig,
                                             "engine config JSON decode");
}
Result<Operator> ParseOperatorJson(std::string_view text) {
  return internal::ParseJsonAs<Operator>(text, ErrorKind::kInvalidEngineConfig,
                                         "invalid operator JSON");
}
Result<std::vector<Operator>> ParseOperatorListJson(std::string_view text) {
  return internal::ParseJsonAs<std::vector<Operator>>(text, ErrorKind::kInvalidEngineConfig,
                                                      "invalid op list JSON");
}

std::string WriteEngineSpecJson(const EngineSpec& spec) { return ToJson(spec); }
std::string WriteEngineConfigJson(const EngineConfig& config) { return ToJson(config); }
std::string WriteOperatorJson(const Operator& op) { return ToJson(op); }
std::string WriteOperatorListJson(const std::vector<Operator>& ops) { return ToJson(ops); }

}  // namespace infercast
