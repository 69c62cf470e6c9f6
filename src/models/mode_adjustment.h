// Fits a build's number formats to a system: what its GPUs compute in, what its kernels were
// measured in. Two callers differ on purpose: the estimate of one given point adjusts what the user
// left open, a search settles every mode and remembers which ones the user chose.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/large_ep.h"
#include "models/model_config.h"
#include "models/model_plan.h"
#include "tables/database.h"

namespace infercast {

// Names, in the list of measured formats, of the tables that a family's attention is priced from.
struct AttentionTables {
  std::string_view context;
  std::string_view generation;
};
AttentionTables AttentionTablesOf(ModelFamily family, Backend backend, bool large_ep);

// What a worker runs.
enum class WorkerRole : std::uint8_t { kAggregated, kPrefill, kDecode };

// Expert format of checkpoints whose fp4 experts run on kernels of the GPU's own; absent when the
// checkpoint's format stands.
std::optional<MoeQuant> ArchitectureMoeQuant(const ModelConfig& model, const SystemSpec& system,
                                             Backend backend,
                                             const std::optional<std::string>& moe_backend);

// One given point. `options.moe_comm` is set already where the layout has large expert parallelism
// (ChooseLargeEp); attention then is not guarded. Changes only what the user left open, except that
// nvfp4 weights become weight-only on GPUs without fp4. Notes what it changed. kInvalidArgument for
// an explicit fp8 attention that was never measured there, or a checkpoint that cannot be read.
Status AdjustForEstimate(const ModelConfig& model, const Database& database, WorkerRole role,
                         BuildOptions& options, std::vector<std::string>& notes);

// A search: every mode of one role. `large_ep_reached`: some layout of the search has large expert
// parallelism (and `fused_reached` some has not). The result's modes are all set; gemm_explicit
// tells whether the user chose the GEMM mode.
struct SearchModes {
  QuantOverrides quant;
  std::vector<std::string> notes;
};
Result<SearchModes> ResolveForSearch(const ModelConfig& model, const Database& database,
                                     WorkerRole role, const BuildOptions& options,
                                     bool fused_reached, bool large_ep_reached);

}  // namespace infercast
