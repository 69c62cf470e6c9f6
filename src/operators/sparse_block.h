// Measured slices of whole sparse-attention blocks (DSA, MSA): which kernel's rows answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tables/table.h"

namespace infercast::latent {

// Rows of one block were measured with up to two attention kernels.
inline constexpr std::string_view kTrtllmKernel = "trtllm";
inline constexpr std::string_view kFlashMlaKernel = "flashmla_kv";

// The grid below `keys` measured with `kernel`; where that kernel was not measured there, with
// another one. A kernel answers as a whole: points are never mixed. `name` is for messages.
Result<GridView> SparseBlockOf(const Result<const Table*>& table, std::span<const Table::Key> keys,
                               std::string_view kernel, std::string_view name);

}  // namespace infercast::latent
