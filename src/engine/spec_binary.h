// The binary form of engine descriptions: positional, little-endian, fixed width, no names, no
// padding. docs/engine-spec.md describes it. Driven by the same field lists as the JSON form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "engine/engine_spec.h"

namespace infercast {

// Refuses: fewer than four bytes (kEngineSpec), another schema version (kUnsupportedSchemaVersion,
// whatever follows), undecodable operators, unreadable configuration (both kEngineSpec). Bytes
// behind the last list are ignored in reference behaviour and refused (kEngineSpec) natively.
// Counts are checked against the bytes that are left before anything is allocated.
Result<EngineSpec> ParseEngineSpecBinary(std::span<const std::uint8_t> bytes,
                                         Behaviour behaviour = Behaviour::kNative);
// The schema version of `spec` is written as it stands.
std::vector<std::uint8_t> WriteEngineSpecBinary(const EngineSpec& spec);

// One operator on its own; all bytes must be used. kEngineSpec.
Result<Operator> ParseOperatorBinary(std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> WriteOperatorBinary(const Operator& op);

}  // namespace infercast
