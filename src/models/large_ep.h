// Communication libraries of large expert parallelism: which serve a backend and phase, in which
// number format they move tokens, and which one a deployment gets.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/model_config.h"
#include "models/model_plan.h"
#include "tables/database.h"

namespace infercast {

struct MoeCommLibrary {
  std::string_view name;
  std::span<const Backend> backends;
  bool context = false;                           // serves prefill
  bool generation = false;                        // serves decode
  std::span<const std::string_view> comm_phases;  // in order; the last is "combine"
  int min_sm = 0;
};

// In order of preference.
std::span<const MoeCommLibrary> MoeCommLibraries();
// kInvalidArgument when there is none of that name.
Result<const MoeCommLibrary*> FindMoeCommLibrary(std::string_view name);

// Format in which `library` moves tokens in a communication phase ("dispatch" or "combine").
// kInvalidArgument when it has none for these expert weights.
Result<std::string> MoeCommDtype(std::string_view library, std::string_view comm_phase,
                                 bool context, MoeQuant quant,
                                 const std::optional<std::string>& system);

// Whether the library can serve this shape at all. `sm` is the GPU's architecture if known.
bool IsFeasible(const MoeCommLibrary& library, std::int64_t topk, std::int64_t moe_tp,
                std::int64_t moe_ep, std::int64_t num_experts, std::optional<int> sm);

// Expert-parallel sizes that each library was measured for, in order of preference.
struct LargeEpCoverage {
  struct Entry {
    std::string_view library;
    std::set<std::uint32_t> ep_sizes;
  };
  std::vector<Entry> context;
  std::vector<Entry> generation;

  bool empty() const { return context.empty() && generation.empty(); }
};

struct PhaseNeeds {
  bool context = true;
  bool generation = true;
};

// What was measured for a model with these expert weights. Empty for families without large expert
// parallelism. `only`: look at this size alone.
LargeEpCoverage MeasureLargeEpCoverage(const ModelConfig& model, const Database& database,
                                       MoeQuant quant, std::optional<std::int64_t> only = {});

// The libraries a layout gets: for each phase the first that covers its expert-parallel size.
// Empty where moe_tp is not 1, on TensorRT-LLM without data parallelism, or without coverage.
MoeCommBackends SelectMoeComm(const LargeEpCoverage& coverage, Backend backend,
                              const ParallelLayout& layout);

// Decides whether one explicit layout runs with large expert parallelism and, if so, completes the
// options: libraries, node width, system, number formats. True when it does, false for the fused
// block. A layout inside one node is fused unless `coverage` (of a search) says otherwise.
// kInvalidArgument for tensor-parallel experts across nodes, kPerfDatabase when experts span nodes
// but no exchange was measured.
Result<bool> ChooseLargeEp(const ModelConfig& model, const Database& database, PhaseNeeds needs,
                           const LargeEpCoverage* coverage, BuildOptions& options);

}  // namespace infercast
