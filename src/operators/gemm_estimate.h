// Estimates of matrix products that were not measured: the utilisation of the format's own rows,
// else of another format with the same costs, else of a format with other costs, corrected by how
// well the two usually do.
#pragma once

#include "base/modes.h"
#include "operators/estimate_ladder.h"
#include "tables/database.h"

namespace infercast {

// The ladder of an operator whose own rows are those of `lookup`. Reads no samples yet. A format to
// borrow from that has no rate answers kMissingSystemFlops.
EstimateLadder GemmLadder(const Database& db, GemmQuant lookup);

}  // namespace infercast
