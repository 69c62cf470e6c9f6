// The one table that maps our error kinds to the names that golden cases use.
#pragma once

#include <string_view>

#include "base/error.h"

namespace infercast::golden {

// True when an answer of `kind` satisfies an expected error called `expected` (the name of a core
// error or of a Python class).
bool ErrorMatches(ErrorKind kind, std::string_view expected);

}  // namespace infercast::golden
