// Number formats against GPUs and measurements.
#include "models/mode_adjustment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "models/family.h"
#include "tables/measured_support.h"

namespace infercast {

namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool Has(const std::vector<std::string>& modes, std::string_view mode) {
  return std::ranges::find(modes, mode) != modes.end();
}

// Attention formats measured under a KV format; empty: nothing is known.
Result<std::vector<std::string>> MeasuredAttention(const Database& db, std::string_view table,
                                                   std::optional<KvQuant> kv) {
  std::optional<std::string_view> kv_name;
  if (kv) kv_name = ToString(*kv);
  Result<std::vector<std::string>> modes = ContextFmhaModes(db.store(), table, kv_name);
  // A table of another backend's model is no information, not an error.
  if (!modes && modes.error().kind == ErrorKind::kUnknownName) return std::vector<std::string>{};
  return modes;
}

// The experts' mode that a checkpoint implies on this backend.
std::optional<MoeQuant> ImpliedMoe(const ModelConfig& model, Backend backend) {
  std::optional<MoeQuant> moe = model.inferred_quant.moe;
  if (backend == Backend::kVllm && model.architecture == "NemotronHForCausalLM" &&
      moe == MoeQuant::kW4a16Nvfp4) {
    moe = MoeQuant::kNvfp4;
  }
  return moe;
}

Status GuardContextAttention(const ModelConfig& model, const Database& db, BuildOptions& options,
                             std::vector<std::string>& notes) {
  const std::string_view table =
      AttentionTablesOf(model.family_id(), options.backend, /*large_ep=*/false).context;
  const std::optional<KvQuant> kv = options.quant.kv ? options.quant.kv : model.inferred_quant.kv;
  IC_ASSIGN(const std::vector<std::string> measured, MeasuredAttention(db, table, kv));
  if (measured.empty() || Has(measured, "fp8")) return {};
  if (options.quant.fmha) {
    if (*options.quant.fmha != FmhaQuant::kFp8) return {};
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("fp8 attention was not measured on {} {} {}; measured: {}",
                            db.store().identity().system, ToString(options.backend),
                            db.store().identity().version, fmt::join(measured, ", ")));
  }
  if (model.inferred_quant.fmha == FmhaQuant::kFp8 && Has(measured, "bfloat16")) {
    options.quant.fmha = FmhaQuant::kBfloat16;
    notes.push_back("attention in bfloat16: fp8 attention was not measured here");
  }
  return {};
}

// GPUs without fp4 arithmetic keep nvfp4 weights and compute in 16 bits.
void StoreNvfp4AsWeightsOnly(const ModelConfig& model, const SystemSpec& system,
                             BuildOptions& options, std::vector<std::string>& notes) {
  if (system.IsBlackwell()) return;
  const bool gemm =
      (options.quant.gemm ? options.quant.gemm : model.inferred_quant.gemm) == GemmQuant::kNvfp4;
  const bool moe = (options.quant.moe ? options.quant.moe : ImpliedMoe(model, options.backend)) ==
                   MoeQuant::kNvfp4;
  if (gemm) options.quant.gemm = GemmQuant::kNvfp4Wo;
  if (moe) options.quant.moe = MoeQuant::kNvfp4Wo;
  if (gemm || moe) notes.push_back("nvfp4 weights are computed in 16 bits: the GPU has no fp4");
}

// Checkpoints whose latent attention mixes formats run it as separate kernels, not as the module.
bool HasMixedProjections(const ModelConfig& model, GemmQuant gemm) {
  if (gemm == GemmQuant::kBfloat16) return false;
  const ProjectionExclusions excluded = ExcludedProjections(ExclusionPatterns(model.root()));
  const int groups = (excluded.q ? 1 : 0) + (excluded.kv ? 1 : 0) + (excluded.o ? 1 : 0);
  return groups != 0 && groups != 3;
}

// fp8 attention stays unless more of the reached tables know only bfloat16.
Result<FmhaQuant> FallBackByData(const ModelConfig& model, const Database& db, Backend backend,
                                 const QuantOverrides& quant, bool fused, bool large_ep) {
  std::vector<std::string_view> tables;
  for (const bool regime : {false, true}) {
    if (!(regime ? large_ep : fused)) continue;
    std::string_view table = AttentionTablesOf(model.family_id(), backend, regime).context;
    if (table == "context_mla" && HasMixedProjections(model, *quant.gemm)) {
      table = "context_mla_granular";
    }
    if (std::ranges::find(tables, table) == tables.end()) tables.push_back(table);
  }
  int with_fp8 = 0;
  int with_bfloat16 = 0;
  for (const std::string_view table : tables) {
    IC_ASSIGN(const std::vector<std::string> measured, MeasuredAttention(db, table, quant.kv));
    with_fp8 += Has(measured, "fp8") ? 1 : 0;
    with_bfloat16 += Has(measured, "bfloat16") ? 1 : 0;
  }
  return with_fp8 >= with_bfloat16 || with_bfloat16 == 0 ? FmhaQuant::kFp8 : FmhaQuant::kBfloat16;
}

}  // namespace

AttentionTables AttentionTablesOf(ModelFamily family, Backend backend, bool large_ep) {
  constexpr AttentionTables kMla = {"context_mla", "generation_mla"};
  if (family == ModelFamily::kDeepseekV4) {
    return {"deepseek_v4_context_module", "deepseek_v4_generation_module"};
  }
  if (family == ModelFamily::kDeepseekV32) return {"dsa_context_module", "dsa_generation_module"};
  const bool latent = family == ModelFamily::kDeepseek || family == ModelFamily::kKimiK25;
  if (backend == Backend::kVllm || (!latent && family != ModelFamily::kKimiK3)) {
    return {"context_attention", "generation_attention"};
  }
  if (family == ModelFamily::kKimiK3 || !large_ep) return kMla;
  if (backend == Backend::kSglang) return {"wideep_context_mla", "wideep_generation_mla"};
  return {"context_mla_granular", "generation_mla"};
}

std::optional<MoeQuant> ArchitectureMoeQuant(const ModelConfig& model, const SystemSpec& system,
                                             Backend backend,
                                             const std::optional<std::string>& moe_backend) {
  if (backend != Backend::kSglang) return std::nullopt;
  const JsonView root = model.root();
  const bool native_fp4 = model.architecture == "DeepseekV4ForCausalLM" &&
                          Lower(root["expert_dtype"].AsText().value_or("")) == "fp4" &&
                          !HasNvfp4RoutedExperts(root);
  if (native_fp4 && moe_backend != "megamoe") {
    if (system.IsBlackwell()) return MoeQuant::kW4a8Mxfp4Mxfp8Trtllm;
    if (system.IsHopper()) return MoeQuant::kW4a16Mxfp4Cutlass;
  }
  if (model.name == "moonshotai/Kimi-K3" && system.IsBlackwell()) {
    return MoeQuant::kW4a8Mxfp4Mxfp8;
  }
  return std::nullopt;
}

Status AdjustForEstimate(const ModelConfig& model, const Database& database, WorkerRole role,
                         BuildOptions& options, std::vector<std::string>& notes) {
  if (model.quant_error) return std::unexpected(*model.quant_error);
  if (role != WorkerRole::kDecode && !options.moe_comm.any()) {
    IC_RETURN_IF_ERROR(GuardContextAttention(model, database, options, notes));
  }
  if (!options.quant.moe) {
    options.quant.moe =
        ArchitectureMoeQuant(model, database.system(), options.backend, options.moe_backend);
  }
  StoreNvfp4AsWeightsOnly(model, database.system(), options, notes);
  return {};
}

Result<SearchModes> ResolveForSearch(const ModelConfig& model, const Database& database,
                                     WorkerRole role, const BuildOptions& options,
                                     bool fused_reached, bool large_ep_reached) {
  if (model.quant_error) return std::unexpected(*model.quant_error);
  const SystemSpec& system = database.system();
  const Backend backend = options.backend;
  const QuantOverrides& given = options.quant;
  const QuantOverrides& implied = model.inferred_quant;
  SearchModes out;
  QuantOverrides& q = out.quant;

  std::optional<MoeQuant> moe = given.moe;
  const bool gpt_oss = model.name == "openai/gpt-oss-120b" || model.name == "openai/gpt-oss-20b";
  if (!moe && backend == Backend::kTrtllm && gpt_oss && system.IsBlackwell()) {
    moe = MoeQuant::kW4a8Mxfp4Mxfp8;
  }
  if (!moe) moe = ArchitectureMoeQuant(model, system, backend, options.moe_backend);
  if (!moe) moe = ImpliedMoe(model, backend);

  q.gemm = given.gemm ? given.gemm : implied.gemm.value_or(GemmQuant::kBfloat16);
  q.moe = moe.value_or(MoeQuant::kBfloat16);
  q.kv = given.kv ? given.kv : implied.kv.value_or(KvQuant::kBfloat16);
  q.fmha = given.fmha ? given.fmha : implied.fmha.value_or(FmhaQuant::kBfloat16);
  q.comm = given.comm.value_or(CommQuant::kHalf);
  q.gemm_explicit = given.gemm_explicit.value_or(given.gemm.has_value());

  if (!system.IsBlackwell()) {
    if (q.gemm == GemmQuant::kNvfp4) q.gemm = GemmQuant::kNvfp4Wo;
    if (q.moe == MoeQuant::kNvfp4) q.moe = MoeQuant::kNvfp4Wo;
  }
  if (role != WorkerRole::kDecode && !given.fmha && q.fmha == FmhaQuant::kFp8) {
    IC_ASSIGN(q.fmha, FallBackByData(model, database, backend, q, fused_reached, large_ep_reached));
    if (q.fmha != FmhaQuant::kFp8) {
      out.notes.push_back("attention in bfloat16: fp8 attention was not measured here");
    }
  }
  return out;
}

}  // namespace infercast
