// Equality of operators (recursive through composites).
#include "operators/operator.h"

namespace infercast {

bool Operator::operator==(const Operator& other) const { return kind == other.kind; }

}  // namespace infercast
