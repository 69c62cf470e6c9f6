#include "engine/random_spec.h"

#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace infercast::testing {
namespace {

template <typename T>
concept WireStruct = requires { T::Fields(); };

class Filler {
 public:
  explicit Filler(std::uint64_t seed) : random_(seed) {}

  void Fill(std::string& out) {
    static const std::vector<std::string> kTexts = {
        "", "a", "context_attention", "quote \" \\ /", "tab\tline\nbell\x07", "größe 大 😀"};
    out = kTexts[random_() % kTexts.size()];
  }
  void Fill(double& out) {
    // Any finite bit pattern.
    do {
      out = std::bit_cast<double>(random_());
    } while (!std::isfinite(out));
  }
  void Fill(bool& out) { out = random_() % 2 == 0; }
  void Fill(std::uint32_t& out) { out = static_cast<std::uint32_t>(random_()); }
  void Fill(std::int64_t& out) { out = static_cast<std::int64_t>(random_()); }
  template <NamedEnum E>
  void Fill(E& out) {
    out = static_cast<E>(random_() % EnumNames<E>::kNames.size());
  }
  template <typename T>
  void Fill(std::optional<T>& out) {
    out.reset();
    if (random_() % 2 == 0) Fill(out.emplace());
  }
  void Fill(std::vector<std::string>& out) {
    out.assign(random_() % 4, "");
    for (std::string& text : out) Fill(text);
  }
  void Fill(std::map<std::string, std::string>& out) {
    for (std::size_t i = random_() % 3; i > 0; --i) {
      std::string key;
      Fill(key);
      Fill(out[key]);
    }
  }
  void Fill(std::vector<Operator>& out) {
    out.clear();
    if (depth_ > 2) return;
    for (std::size_t i = random_() % 3; i > 0; --i) Fill(out.emplace_back());
  }
  void Fill(Box<Operator>& out) {
    Operator op;
    Fill(op);
    out = Box<Operator>(std::move(op));
  }
  void Fill(Operator& out) {
    // Deep inside only kinds without children, so that filling ends.
    const std::size_t kind = random_() % std::variant_size_v<OperatorVariant>;
    ++depth_;
    if (depth_ > 3) {
      Fill(out.kind.emplace<Gemm>());
    } else {
      FillKind(out, kind);
    }
    --depth_;
  }
  template <WireStruct S>
  void Fill(S& out) {
    std::apply([&](const auto&... field) { (Fill(out.*field.member), ...); }, S::Fields());
  }

  template <std::size_t I = 0>
  void FillKind(Operator& out, std::size_t kind) {
    if constexpr (I < std::variant_size_v<OperatorVariant>) {
      if (kind == I) return Fill(out.kind.emplace<I>());
      FillKind<I + 1>(out, kind);
    }
  }

 private:
  std::mt19937_64 random_;
  int depth_ = 0;
};

}  // namespace

EngineSpec RandomSpec(std::uint64_t seed) {
  Filler filler(seed);
  EngineSpec spec;
  filler.Fill(spec.engine);
  spec.engine.backend = "sglang";  // the only text that is checked
  for (std::size_t kind = 0; kind < std::variant_size_v<OperatorVariant>; ++kind) {
    filler.FillKind((kind % 2 == 0 ? spec.context_ops : spec.generation_ops).emplace_back(), kind);
  }
  return spec;
}

}  // namespace infercast::testing
