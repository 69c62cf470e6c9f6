// Searches on several systems in one run, for the buyer's table.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/load_search.h"
#include "cli/search_flags.h"
#include "cli/search_output.h"

namespace infercast {

// Whether --system has more than one name, separated by commas.
bool NamesSeveralSystems(const SearchFlags& search);

// The same question to each system: for a load, or for `gpus` GPUs (`bounded`: of a cluster; else
// of the largest replica). A system that cannot be answered is told of, not an error, as long as
// another can.
Result<int> CompareSystems(const SearchFlags& search, const LoadFlags& load, std::int64_t gpus,
                           bool bounded, bool nextn_given, const SearchOutputFlags& output,
                           const CliContext& context);

}  // namespace infercast
