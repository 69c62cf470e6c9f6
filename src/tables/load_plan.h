// From a table's description and the source lists to the files of one load, and the load itself.
#pragma once

#include <expected>
#include <memory>
#include <vector>

#include "tables/readers/recipe.h"
#include "tables/sources.h"

namespace infercast {

// The files a table reads, in order, existing or not. kPerfDatabase when sources cannot be resolved
// or a collective library is not configured.
Result<std::vector<PlannedSource>> PlanSources(const TableRecipe& recipe,
                                               const SourceResolver& resolver,
                                               const LoadContext& context);

// The finished table: from the table cache if it has a valid image, else from the files.
std::expected<std::unique_ptr<const Table>, LoadFailure> LoadTable(TableId id,
                                                                   const SourceResolver& resolver,
                                                                   const LoadContext& context);

}  // namespace infercast
