// What the figures of a deployment, and the ranking of several, come from.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/modes.h"

namespace infercast {

enum class ScoredBy : std::uint8_t { kFormula, kClosedLoop };
template <>
struct EnumNames<ScoredBy> {
  static constexpr std::string_view kType = "score";
  static constexpr std::array<std::string_view, 2> kNames = {"formula", "closed-loop"};
};

// Natively a benchmark run in virtual time, as far as there is one; the reference knows none.
constexpr ScoredBy DefaultScore(Behaviour behaviour) {
  return behaviour == Behaviour::kNative ? ScoredBy::kClosedLoop : ScoredBy::kFormula;
}

}  // namespace infercast
