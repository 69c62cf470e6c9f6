// The JSON form of engine descriptions and of single operators: what people read and producers
// write. Reading and writing both walk the field lists of the structs.
//
// Reading is strict about what it needs and lenient about the rest: unknown members are ignored;
// a missing required member, an unknown operator kind or enum spelling, a negative or fractional
// number for an integer and text that is not JSON are errors. An integer is accepted where a
// floating-point number is expected; null only where a member is optional. Decimals are rounded
// correctly; floating-point numbers are written as the shortest text that reads back equal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine_spec.h"

namespace infercast {

// kEngineSpec ("engine spec JSON decode: ..."). The schema version is carried, not checked: it is
// checked where an engine is loaded.
Result<EngineSpec> ParseEngineSpecJson(std::string_view text);
// kInvalidEngineConfig.
Result<EngineConfig> ParseEngineConfigJson(std::string_view text);
// kInvalidEngineConfig. One {"Kind": {members}} object, and an array of them.
Result<Operator> ParseOperatorJson(std::string_view text);
Result<std::vector<Operator>> ParseOperatorListJson(std::string_view text);

// Compact text, members in declaration order, every member present.
std::string WriteEngineSpecJson(const EngineSpec& spec);
std::string WriteEngineConfigJson(const EngineConfig& config);
std::string WriteOperatorJson(const Operator& op);
std::string WriteOperatorListJson(const std::vector<Operator>& ops);

}  // namespace infercast
