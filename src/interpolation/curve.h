// One-axis curves: exact point, linear between two points, held utilisation beyond the ends.
#pragma once

#include "interpolation/resolved.h"
#include "tables/table.h"

namespace infercast {

// `curve` must have depth 1. `sol` gets one coordinate. Any distance is held, in both directions.
ResolveResult ResolveCurve(const GridView& curve, double c, SolFunction sol);

// As above, but a curve of one single point refuses queries below it (kBelowSingleton).
ResolveResult ResolveCurveNoSingletonUnderflow(const GridView& curve, double c, SolFunction sol);

}  // namespace infercast
