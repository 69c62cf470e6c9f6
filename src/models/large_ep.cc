// Registry of expert communication libraries.
#include "models/large_ep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "models/family.h"
#include "tables/measured_support.h"

namespace infercast {

namespace {

constexpr std::array<std::string_view, 2> kTwoPhases = {"dispatch", "combine"};
constexpr std::array<std::string_view, 3> kThreePhases = {"prepare", "dispatch", "combine"};
constexpr std::array<Backend, 2> kSglangVllm = {Backend::kSglang, Backend::kVllm};
constexpr std::array<Backend, 1> kVllm = {Backend::kVllm};
constexpr std::array<Backend, 1> kTrtllm = {Backend::kTrtllm};

// The NVLink exchanges need NVLink memory across nodes.
constexpr int kBlackwell = 100;

constexpr std::array<MoeCommLibrary, 8> kLibraries = {{
    {"deepep_ht", kSglangVllm, true, false, kTwoPhases, 0},
    {"deepep_ll", kSglangVllm, false, true, kTwoPhases, 0},
    {"deepep_v2_context", kVllm, true, false, kTwoPhases, 0},
    {"deepep_v2_generation", kVllm, false, true, kTwoPhases, 0},
    {"trtllm_deepep_ht", kTrtllm, true, false, kTwoPhases, 0},
    {"trtllm_deepep_ll", kTrtllm, false, true, kTwoPhases, 0},
    {"nvlink_two_sided", kTrtllm, true, true, kThreePhases, kBlackwell},
    {"nvlink_one_sided", kTrtllm, true, true, kTwoPhases, kBlackwell},
}};

bool Serves(const MoeCommLibrary& library, Backend backend, bool context) {
  return std::ranges::find(library.backends, backend) != library.backends.end() &&
         (context ? library.context : library.generation);
}

bool HasLargeEp(ModelFamily family) {
  return family == ModelFamily::kMoe || family == ModelFamily::kDeepseek ||
         family == ModelFamily::kDeepseekV32 || family == ModelFamily::kKimiK25;
}

std::int64_t Nodes(std::int64_t ep, std::int64_t gpus_per_node) {
  return (ep + gpus_per_node - 1) / gpus_per_node;
}

// Measured for this spread, or, for the DeepEP libraries across nodes, for one node: their
// inter-node behaviour is extended from there.
bool Covers(const MoeCommLibrary& library, const std::set<ExchangeLayout>& measured,
            std::int64_t ep, std::int64_t gpus_per_node, Backend backend) {
  const auto nodes = static_cast<std::uint32_t>(Nodes(ep, gpus_per_node));
  if (measured.contains({static_cast<std::uint32_t>(ep), nodes})) return true;
  const bool extends = library.name == "deepep_ht" || library.name == "deepep_ll" ||
                       library.name == "trtllm_deepep_ht" || library.name == "trtllm_deepep_ll";
  constexpr std::uint32_t kSglangNode = 8;
  const std::uint32_t one_node =
      backend == Backend::kSglang ? kSglangNode : static_cast<std::uint32_t>(gpus_per_node);
  return extends && nodes > 1 && measured.contains({one_node, 1});
}

std::vector<LargeEpCoverage::Entry> MeasurePhase(const ModelConfig& m, const Database& db,
                                                 MoeQuant quant, bool context,
                                                 std::optional<std::int64_t> only) {
  const TableStore& store = db.store();
  const auto size = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const std::string_view phase = context ? "context" : "generation";
  std::set<std::uint32_t> computed =
      MoeExpertComputeCoverage(store, size(m.hidden_size), size(m.moe_inter_size), size(m.topk),
                               size(m.num_experts), ToString(quant), phase);
  if (db.backend() != Backend::kSglang) {
    computed.merge(MoeLayerCoverage(store, size(m.hidden_size), size(m.moe_inter_size),
                                    size(m.topk), size(m.num_experts), ToString(quant)));
  }
  const std::optional<std::string> system = store.identity().system;
  const auto exchanged = MoeAllToAllCoverage(
      store, size(m.hidden_size), size(m.topk), size(m.num_experts),
      [&](std::string_view library, std::string_view comm_phase) -> std::optional<std::string> {
        if (!FindMoeCommLibrary(library)) return std::nullopt;
        auto dtype = MoeCommDtype(library, comm_phase, context, quant, system);
        if (!dtype) return std::nullopt;
        return *std::move(dtype);
      });
  std::vector<LargeEpCoverage::Entry> entries;
  for (const MoeCommLibrary& library : kLibraries) {
    if (!Serves(library, db.backend(), context)) continue;
    const auto measured = exchanged.find(std::string(library.name));
    if (measured == exchanged.end()) continue;
    LargeEpCoverage::Entry entry{library.name, {}};
    for (const std::uint32_t ep : computed) {
      if (only && *only != ep) continue;
      if (IsFeasible(library, m.topk, 1, ep, m.num_experts, db.system().sm_version) &&
          Covers(library, measured->second, ep, db.system().num_gpus_per_node, db.backend())) {
        entry.ep_sizes.insert(ep);
      }
    }
    if (!entry.ep_sizes.empty()) entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<std::string> FirstCovering(const std::vector<LargeEpCoverage::Entry>& entries,
                                         std::int64_t ep) {
  for (const LargeEpCoverage::Entry& entry : entries) {
    if (entry.ep_sizes.contains(static_cast<std::uint32_t>(ep))) return std::string(entry.library);
  }
  return std::nullopt;
}

}  // namespace

std::span<const MoeCommLibrary> MoeCommLibraries() { return kLibraries; }

Result<const MoeCommLibrary*> FindMoeCommLibrary(std::string_view name) {
  for (const MoeCommLibrary& library : kLibraries) {
    if (library.name == name) return &library;
  }
  std::string known;
  for (const MoeCommLibrary& library : kLibraries) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", library.name);
  }
  return Fail(
      ErrorKind::kInvalidArgument,
      fmt::format("unknown expert communication library \"{}\"; there are {}", name, known));
}

Result<std::string> MoeCommDtype(std::string_view library, std::string_view comm_phase,
                                 bool context, MoeQuant quant,
                                 const std::optional<std::string>& system) {
  const MoeQuant q = quant == MoeQuant::kFp8Block ? MoeQuant::kFp8 : quant;
  const bool plain = q == MoeQuant::kBfloat16 || q == MoeQuant::kFp8;
  const bool nvfp4 = q == MoeQuant::kNvfp4;
  const bool combine = comm_phase == "combine";
  if (library.starts_with("deepep")) return "default";
  if (library == "trtllm_deepep_ht") {
    if (nvfp4) return "nvfp4";
    if (plain) return "bfloat16";
  } else if (library == "trtllm_deepep_ll") {
    const bool hopper = system == "h100_sxm" || system == "h200_sxm";
    if (plain) return std::string(ToString(q));
    if (nvfp4 && !hopper) return combine ? "fp4" : "nvfp4";
  } else if (library == "nvlink_two_sided" || library == "nvlink_one_sided") {
    if (nvfp4 && !context && combine) return "fp4";
    return std::string(ToString(q));
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} has no format to move {} experts' tokens ({}, {})", library,
                          ToString(quant), context ? "context" : "generation", comm_phase));
}

bool IsFeasible(const MoeCommLibrary& library, std::int64_t topk, std::int64_t moe_tp,
                std::int64_t moe_ep, std::int64_t num_experts, std::optional<int> sm) {
  constexpr std::int64_t kMaxTopk = 8;
  return topk <= kMaxTopk && moe_tp == 1 && moe_ep > 1 && moe_ep <= num_experts &&
         num_experts % moe_ep == 0 && (!sm || *sm >= library.min_sm);
}

LargeEpCoverage MeasureLargeEpCoverage(const ModelConfig& model, const Database& database,
                                       MoeQuant quant, std::optional<std::int64_t> only) {
  if (!HasLargeEp(model.family_id()) || database.system().num_gpus_per_node == 0) return {};
  return {MeasurePhase(model, database, quant, true, only),
          MeasurePhase(model, database, quant, false, only)};
}

MoeCommBackends SelectMoeComm(const LargeEpCoverage& coverage, Backend backend,
                              const ParallelLayout& layout) {
  const std::int64_t ep = layout.moe_ep.value_or(1);
  if (layout.moe_tp.value_or(1) != 1 || ep <= 1) return {};
  if (backend == Backend::kTrtllm && layout.dp <= 1) return {};
  return {FirstCovering(coverage.context, ep), FirstCovering(coverage.generation, ep)};
}

Result<bool> ChooseLargeEp(const ModelConfig& model, const Database& database, PhaseNeeds needs,
                           const LargeEpCoverage* coverage, BuildOptions& options) {
  const std::int64_t moe_tp = options.layout.moe_tp.value_or(1);
  const std::int64_t ep = options.layout.moe_ep.value_or(1);
  if (!model.IsMoe() || ep <= 1) return false;
  std::int64_t gpus_per_node = database.system().num_gpus_per_node;
  if (gpus_per_node == 0) gpus_per_node = options.gpus_per_node.value_or(0);
  if (gpus_per_node <= 0) {
    return Fail(ErrorKind::kInvalidArgument, fmt::format("{} does not say how many GPUs a node has",
                                                         database.store().identity().system));
  }
  options.gpus_per_node = gpus_per_node;
  const bool across_nodes = ep > gpus_per_node;
  if (!across_nodes && coverage == nullptr) return false;
  if (moe_tp != 1) {
    if (!across_nodes) return false;
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("experts across nodes need pure expert parallelism (moe_tp = 1), got "
                            "moe_tp = {} and moe_ep = {}",
                            moe_tp, ep));
  }
  if (model.quant_error) return std::unexpected(*model.quant_error);
  const QuantOverrides given = options.quant;
  const QuantModes modes =
      ResolveQuantModes(given, model.inferred_quant, model.architecture, options.backend);
  options.quant = {.gemm = modes.gemm,
                   .moe = modes.moe,
                   .kv = modes.kv,
                   .fmha = modes.fmha,
                   .comm = modes.comm,
                   .gemm_explicit = given.gemm_explicit};
  LargeEpCoverage measured;
  if (coverage == nullptr) {
    measured = MeasureLargeEpCoverage(model, database, modes.moe, ep);
    if (!needs.context) measured.context.clear();
    if (!needs.generation) measured.generation.clear();
    coverage = &measured;
  }
  MoeCommBackends libraries = SelectMoeComm(*coverage, options.backend, options.layout);
  const bool missing =
      (needs.context && !libraries.context) || (needs.generation && !libraries.generation);
  if (missing) {
    if (!across_nodes) return false;
    return Fail(
        ErrorKind::kPerfDatabase,
        fmt::format(
            "no expert exchange was measured for {} over {} ranks on nodes of {} "
            "GPUs ({}{}{})",
            model.name, ep, gpus_per_node, needs.context && !libraries.context ? "context" : "",
            needs.context && !libraries.context && needs.generation && !libraries.generation ? ", "
                                                                                             : "",
            needs.generation && !libraries.generation ? "generation" : ""));
  }
  options.moe_comm = std::move(libraries);
  options.system = database.store().identity().system;
  if (options.backend == Backend::kSglang && model.architecture == "DeepseekV3ForCausalLM") {
    if (!given.fmha) options.quant.fmha = FmhaQuant::kFp8Block;
    if (!given.kv) options.quant.kv = KvQuant::kFp8;
  }
  return true;
}

}  // namespace infercast
