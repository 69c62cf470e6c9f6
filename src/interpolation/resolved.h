// What a look-up in measured points answers, and how far it had to go for it.
#pragma once

#include <cstdint>
#include <expected>
#include <span>

#include "base/function_ref.h"

namespace infercast {

enum class ResolveKind : std::uint8_t {
  kPoint,         // a measured point, verbatim
  kInterpolated,  // between measured points
  kExtrapolated,  // beyond them: held utilisation
};

// Units: ms, W, W*ms. `octaves`: distance (log2) to the nearest point used when extrapolated, else
// 0. `leaf`: absolute leaf index of the nearest point used, for the source version.
struct Resolved {
  double latency = 0;
  double power = 0;
  double energy = 0;
  ResolveKind kind = ResolveKind::kPoint;
  float octaves = 0;
  std::uint32_t leaf = 0;
};

enum class Miss : std::uint8_t {
  kEmptyTable,
  kEmptyBranch,
  kNoUsableBranch,
  kNoBoundaryAnchor,
  kNonPositiveSol,
  kNoSiteInReach,
  kNoUsableSite,
  kBelowSingleton,
};
const char* ToString(Miss miss);

using ResolveResult = std::expected<Resolved, Miss>;

// Speed of light (ms) at full grid coordinates, in axis order.
using SolFunction = FunctionRef<double(std::span<const double>)>;

}  // namespace infercast
