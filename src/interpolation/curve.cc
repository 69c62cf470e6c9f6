#include "interpolation/curve.h"

#include <algorithm>
#include <cmath>

#include "interpolation/lower_bound.h"

namespace infercast {

namespace {

// Held utilisation: the end point's ratio of speed of light to latency is kept.
ResolveResult Hold(const Table& table, double key, std::uint32_t leaf_index, double c,
                   SolFunction sol) {
  const Leaf leaf = table.LeafAt(leaf_index);
  if (!(leaf.latency > 0)) return std::unexpected(Miss::kNoBoundaryAnchor);
  const double sol_anchor = sol(std::span(&key, 1));
  if (!(sol_anchor > 0)) return std::unexpected(Miss::kNoBoundaryAnchor);
  const double sol_query = sol(std::span<const double>(&c, 1));
  if (!(sol_query > 0) || std::isinf(sol_query)) return std::unexpected(Miss::kNonPositiveSol);
  Resolved r;
  r.latency = sol_query / (sol_anchor / leaf.latency);
  r.power = leaf.BlendPower();
  r.energy = r.power * r.latency;
  r.kind = ResolveKind::kExtrapolated;
  r.octaves =
      static_cast<float>(std::abs(std::log2(std::max(c, 1.0)) - std::log2(std::max(key, 1.0))));
  r.leaf = leaf_index;
  return r;
}

}  // namespace

const char* ToString(Miss miss) {
  switch (miss) {
    case Miss::kEmptyTable:
      return "empty table";
    case Miss::kEmptyBranch:
      return "empty branch";
    case Miss::kNoUsableBranch:
      return "no usable branch";
    case Miss::kNoBoundaryAnchor:
      return "no boundary point with positive utilisation";
    case Miss::kNonPositiveSol:
      return "speed of light at the query is not positive";
    case Miss::kNoSiteInReach:
      return "no measured shape within reach";
    case Miss::kNoUsableSite:
      return "no usable neighbouring shape";
    case Miss::kBelowSingleton:
      return "below the only measured point";
  }
  return "miss";
}

ResolveResult ResolveCurve(const GridView& curve, double c, SolFunction sol) {
  if (curve.empty()) return std::unexpected(Miss::kEmptyTable);
  const Table& table = *curve.table;
  const std::span<const double> keys = curve.keys();
  const auto at = static_cast<std::uint32_t>(LowerBound(keys, c));
  if (at < keys.size() && keys[at] == c) {
    const Leaf leaf = table.LeafAt(curve.begin + at);
    return Resolved{leaf.latency,        leaf.power, leaf.energy,
                    ResolveKind::kPoint, 0,          curve.begin + at};
  }
  if (at == 0) return Hold(table, keys[0], curve.begin, c, sol);
  if (at == keys.size()) return Hold(table, keys[at - 1], curve.begin + at - 1, c, sol);
  const Leaf low = table.LeafAt(curve.begin + at - 1);
  const Leaf high = table.LeafAt(curve.begin + at);
  const double w = (c - keys[at - 1]) / (keys[at] - keys[at - 1]);
  const double low_power = low.BlendPower();
  Resolved r;
  r.latency = low.latency + (high.latency - low.latency) * w;
  r.power = low_power + (high.BlendPower() - low_power) * w;
  r.energy = r.power * r.latency;
  r.kind = ResolveKind::kInterpolated;
  r.leaf = curve.begin + (w < 0.5 ? at - 1 : at);
  return r;
}

ResolveResult ResolveCurveNoSingletonUnderflow(const GridView& curve, double c, SolFunction sol) {
  if (curve.size() == 1 && c < curve.keys()[0]) return std::unexpected(Miss::kBelowSingleton);
  return ResolveCurve(curve, c, sol);
}

}  // namespace infercast
