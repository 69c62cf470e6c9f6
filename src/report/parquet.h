// A table of results as a Parquet file, for data frames.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "report/table.h"

namespace infercast {

// Columns have the identifiers of JSON, in the table's order, each with the one type that all its
// cells fit; columns without any value are text. kIo.
Status WriteParquet(const ResultTable& table, const std::filesystem::path& file);

}  // namespace infercast
