// Measured rows as nested JSON, the way tools of the field dump them: keys in the order in which
// they first appear, no lanes, nothing raised to the speed of light.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tables/database.h"

namespace infercast {

// Names of the views, such as "_gemm_data".
std::vector<std::string> RawViewNames();

// The JSON text of a view; none when no source file exists. Keys are texts (decimal integers,
// shapes joined by '|'); an object with "latency" is a leaf (ms, W, W*ms). Non-finite numbers print
// as NaN and Infinity. kPerfDatabase for an unknown name or unusable rows, kParquet for undecodable
// files.
Result<std::optional<std::string>> RawTableView(const TableStore& store, std::string_view view);

}  // namespace infercast
