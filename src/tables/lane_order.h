// In which order an attention operator tries the measured kernels ("lanes") of its backend: the
// kernel the user asked for, the one the framework would choose on this GPU, then the others by how
// densely they were measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tables/database.h"

namespace infercast {

// How much was measured in a lane.
struct LaneDensity {
  std::uint32_t slices = 0;  // distinct discrete keys
  std::uint32_t points = 0;
  bool operator==(const LaneDensity&) const = default;
};

// By lane name. `table`: kContextAttention or kGenerationAttention. Empty when it cannot be loaded.
std::map<std::string, LaneDensity> LaneDensities(const TableStore& store, TableId table);

// `attention_backend`: fa3, triton, trtllm_mha, flashinfer, fla, default, or none.
// kInvalidArgument when the backend has no such kernel or none of its rows were measured.
Result<std::vector<std::string>> ResolveLaneOrder(
    const Database& db, TableId table, const std::optional<std::string>& attention_backend);

}  // namespace infercast
