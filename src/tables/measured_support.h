// What a database can answer for: number formats by operator, and the layouts for which expert
// communication and computation were measured. Model builders and searches ask before they plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "tables/database.h"

namespace infercast {

// Keys of the support list of a backend, such as "gemm" or "moe".
std::vector<std::string> SupportKeys(Backend backend);

// Number formats measured for one key: weights' formats, or the KV cache's for generation kinds.
// Empty when nothing was measured. kUnknownName for a key the backend does not have; a damaged
// table's error otherwise.
Result<std::vector<std::string>> SupportedQuantModes(const TableStore& store, std::string_view key);

// Attention formats measured together with a KV-cache format, sorted. For kinds that do not tell
// the two apart, or without a KV format, the flat list of SupportedQuantModes.
Result<std::vector<std::string>> ContextFmhaModes(const TableStore& store, std::string_view key,
                                                  std::optional<std::string_view> kv_cache_dtype);

// Number format in which a communication library moves tokens in a phase; none = skip the library.
using CommDtypeOf = std::function<std::optional<std::string>(std::string_view comm_backend,
                                                             std::string_view phase)>;

// (expert-parallel size, nodes)
using ExchangeLayout = std::pair<std::uint32_t, std::uint32_t>;

// By communication library: layouts measured for both dispatch and combine at this shape, for any
// SM count; in any number format, or exactly the one that `dtype_of` names. Empty without a table.
std::map<std::string, std::set<ExchangeLayout>> MoeAllToAllCoverage(
    const TableStore& store, std::uint32_t hidden_size, std::uint32_t topk,
    std::uint32_t num_experts, const CommDtypeOf& dtype_of = {});

// Expert-parallel sizes at moe_tp 1 with measured expert computation (any kernel, distribution and
// slot count). `phase`: context or generation.
std::set<std::uint32_t> MoeExpertComputeCoverage(const TableStore& store, std::uint32_t hidden_size,
                                                 std::uint32_t inter_size, std::uint32_t topk,
                                                 std::uint32_t num_experts, std::string_view quant,
                                                 std::string_view phase);
// The same from the table of fused MoE layers, which does not tell phases apart.
std::set<std::uint32_t> MoeLayerCoverage(const TableStore& store, std::uint32_t hidden_size,
                                         std::uint32_t inter_size, std::uint32_t topk,
                                         std::uint32_t num_experts, std::string_view quant);

}  // namespace infercast
