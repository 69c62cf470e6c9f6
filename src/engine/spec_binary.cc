// Positional reader and writer driven by the structs' field lists. The engine configuration
// travels as JSON text inside the binary record.
#include "engine/spec_binary.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "engine/spec_json.h"

namespace infercast {
namespace {

template <typename T>
concept WireStruct = requires { T::Fields(); };

// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int tail = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || i + tail >= text.size()) return false;
    for (int k = 1; k <= tail; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const unsigned char second = byte(i + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return false;
    }
    i += static_cast<std::size_t>(tail) + 1;
  }
  return true;
}

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::string error;
  std::size_t left() const { return bytes_.size() - position_; }

  template <typename T>
    requires std::is_arithmetic_v<T>
  bool Read(T& out) {
    if (left() < sizeof(T)) return Truncated(sizeof(T));
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bits |= static_cast<std::uint64_t>(bytes_[position_ + i]) << (8 * i);
    }
    position_ += sizeof(T);
    if constexpr (std::is_same_v<T, double>) {
      out = std::bit_cast<double>(bits);
    } else {
      out = static_cast<T>(bits);
    }
    return true;
  }
  bool Read(bool& out) {
    std::uint8_t byte = 0;
    if (!Read(byte)) return false;
    if (byte > 1) return Bad(fmt::format("a truth value is 0 or 1, got {}", byte));
    out = byte == 1;
    return true;
  }
  bool Read(std::string& out) {
    std::uint64_t size = 0;
    if (!Read(size)) return false;
    if (size > left()) return Bad(fmt::format("a text of {} bytes, {} are left", size, left()));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, size);
    if (!IsUtf8(text)) return Bad("a text that is not UTF-8");
    out = text;
    position_ += size;
    return true;
  }
  template <NamedEnum E>
  bool Read(E& out) {
    std::uint32_t tag = 0;
    if (!Read(tag)) return false;
    if (tag >= EnumNames<E>::kNames.size()) {
      return Bad(fmt::format("unknown {} tag {}", EnumNames<E>::kType, tag));
    }
    out = static_cast<E>(tag);
    return true;
  }
  template <typename T>
  bool Read(std::optional<T>& out) {
    std::uint8_t tag = 0;
    if (!Read(tag)) return false;
    if (tag > 1) return Bad(fmt::format("an option tag is 0 or 1, got {}", tag));
    out.reset();
    return tag == 0 || Read(out.emplace());
  }
  template <typename T>
  bool Read(std::vector<T>& out) {
    std::uint64_t count = 0;
    if (!Read(count)) return false;
    // The smallest element is 8 bytes (an empty text); an operator takes more.
    if (count > left() / 8) {
      return Bad(fmt::format("a list of {} elements, {} bytes are left", count, left()));
    }
    out.clear();
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!Read(out.emplace_back())) return false;
    }
    return true;
  }
  bool Read(Box<Operator>& out) {
    Operator op;
    if (!Read(op)) return false;
    out = Box<Operator>(std::move(op));
    return true;
  }
  bool Read(Operator& out) {
    std::uint32_t tag = 0;
    if (!Read(tag)) return false;
    if (++depth_ > kMaxOperatorNesting) {
      return Bad(fmt::format("operators nest deeper than {} levels", kMaxOperatorNesting));
    }
    const bool ok = ReadKind<0>(tag, out);
    --depth_;
    return ok;
  }
  template <WireStruct S>
  bool Read(S& out) {
    return std::apply([&](const auto&... field) { return (Read(out.*field.member) && ...); },
                      S::Fields());
  }

 private:
  template <std::size_t I>
  bool ReadKind(std::uint32_t tag, Operator& out) {
    if constexpr (I == std::variant_size_v<OperatorVariant>) {
      return Bad(fmt::format("unknown operator tag {}", tag));
    } else {
      if (tag == I) return Read(out.kind.emplace<I>());
      return ReadKind<I + 1>(tag, out);
    }
  }
  bool Truncated(std::size_t need) {
    return Bad(fmt::format("{} more bytes needed, {} are left", need, left()));
  }
  bool Bad(std::string what) {
    error = fmt::format("{} (at byte {})", what, position_);
    return false;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

class Writer {
 public:
  std::vector<std::uint8_t> out;

  template <typename T>
    requires std::is_arithmetic_v<T>
  void Write(T value) {
    std::uint64_t bits;
    if constexpr (std::is_same_v<T, double>) {
      bits = std::bit_cast<std::uint64_t>(value);
    } else {
      bits = static_cast<std::uint64_t>(value);
    }
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
    }
  }
  void Write(const std::string& text) {
    Write(static_cast<std::uint64_t>(text.size()));
    out.insert(out.end(), text.begin(), text.end());
  }
  template <NamedEnum E>
  void Write(E value) {
    Write(static_cast<std::uint32_t>(value));
  }
  template <typename T>
  void Write(const std::optional<T>& value) {
    Write(static_cast<std::uint8_t>(value.has_value()));
    if (value) Write(*value);
  }
  template <typename T>
  void Write(const std::vector<T>& items) {
    Write(static_cast<std::uint64_t>(items.size()));
    for (const T& item : items) Write(item);
  }
  void Write(const Box<Operator>& op) { Write(*op); }
  void Write(const Operator& op) {
    Write(static_cast<std::uint32_t>(op.kind.index()));
    std::visit([&](const auto& payload) { Write(payload); }, op.kind);
  }
  template <WireStruct S>
  void Write(const S& value) {
    std::apply([&](const auto&... field) { (Write(value.*field.member), ...); }, S::Fields());
  }
};

}  // namespace

Result<EngineSpec> ParseEngineSpecBinary(std::span<const std::uint8_t> bytes, Behaviour behaviour) {
  Reader reader(bytes);
  EngineSpec spec;
  if (!reader.Read(spec.schema_version)) {
    return Fail(
        ErrorKind::kEngineSpec,
        fmt::format("cannot read the schema_version prefix: payload is {} bytes", bytes.size()));
  }
  if (spec.schema_version != kEngineSpecSchemaVersion) {
    return Fail(ErrorKind::kUnsupportedSchemaVersion,
                fmt::format("unsupported schema version for EngineSpec: got {}, expected {}",
                            spec.schema_version, kEngineSpecSchemaVersion));
  }
  std::string config;
  if (!reader.Read(config) || !reader.Read(spec.context_ops) || !reader.Read(spec.generation_ops)) {
    return Fail(ErrorKind::kEngineSpec,
                fmt::format("cannot decode the op payloads of schema_version {}: {}",
                            spec.schema_version, reader.error));
  }
  auto engine = ParseEngineConfigJson(config);
  if (!engine) {
    return Fail(ErrorKind::kEngineSpec,
                fmt::format("cannot decode the engine JSON of schema_version {}: {}",
                            spec.schema_version, engine.error().message));
  }
  spec.engine = *std::move(engine);
  if (behaviour == Behaviour::kNative && reader.left() > 0) {
    return Fail(ErrorKind::kEngineSpec,
                fmt::format("{} bytes follow the end of the engine spec", reader.left()));
  }
  return spec;
}

std::vector<std::uint8_t> WriteEngineSpecBinary(const EngineSpec& spec) {
  Writer writer;
  writer.Write(spec.schema_version);
  writer.Write(WriteEngineConfigJson(spec.engine));
  writer.Write(spec.context_ops);
  writer.Write(spec.generation_ops);
  return std::move(writer.out);
}

Result<Operator> ParseOperatorBinary(std::span<const std::uint8_t> bytes) {
  Reader reader(bytes);
  Operator op;
  if (!reader.Read(op)) {
    return Fail(ErrorKind::kEngineSpec, fmt::format("cannot decode an operator: {}", reader.error));
  }
  if (reader.left() > 0) {
    return Fail(ErrorKind::kEngineSpec,
                fmt::format("{} bytes follow the end of the operator", reader.left()));
  }
  return op;
}

std::vector<std::uint8_t> WriteOperatorBinary(const Operator& op) {
  Writer writer;
  writer.Write(op);
  return std::move(writer.out);
}

}  // namespace infercast
