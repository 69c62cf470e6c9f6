// KV capacity in its recorded form.
#pragma once

#include <nlohmann/json.hpp>

#include "serving/kv_capacity.h"

namespace infercast::golden {

// The limits in a case's arguments.
KvCapacityRequest CapacityLimits(const nlohmann::json& args);
nlohmann::json CapacityJson(const KvCapacity& capacity);

}  // namespace infercast::golden
