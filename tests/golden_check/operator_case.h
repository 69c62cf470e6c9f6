// The parts of an operator case that other programs than golden_check use too: its data, its
// question, and the operator bound to the data.
#pragma once

#include <nlohmann/json.hpp>

#include "golden_check/environment.h"
#include "operators/bound_operator.h"

namespace infercast::golden {

// The roofline-decomposition view is asked of an engine that was loaded in silicon mode.
bool IsDecomposition(const nlohmann::json& document);

QueryContext ParseContext(const nlohmann::json& ctx);

// Binds `op`, which is the operator of `document`, to the data and mode that the case names. Fails
// where the data cannot be opened.
Result<BoundOperator> BindCase(const nlohmann::json& document, const Operator& op,
                               Environment& environment);

}  // namespace infercast::golden
