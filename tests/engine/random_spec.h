// Engine descriptions with random fields, driven by the structs' field lists: every operator kind,
// optional members present and absent, composites nested.
#pragma once

#include <cstdint>

#include "engine/engine_spec.h"

namespace infercast::testing {

// Holds each of the 35 kinds at least once. The same seed gives the same description.
EngineSpec RandomSpec(std::uint64_t seed);

}  // namespace infercast::testing
