// Which description belongs to which table.
#include <array>

#include "tables/readers/families.h"

namespace infercast {
namespace {

TableRecipe Make(TableId id) {
  switch (id) {
    case TableId::kGemm:
      return GemmRecipe();
    case TableId::kComputeScale:
      return ComputeScaleRecipe();
    case TableId::kScaleMatrix:
      return ScaleMatrixRecipe();
    case TableId::kContextAttention:
      return ContextAttentionRecipe();
    case TableId::kGenerationAttention:
      return GenerationAttentionRecipe();
    case TableId::kEncoderAttention:
      return EncoderAttentionRecipe();
    case TableId::kContextMla:
      return ContextMlaRecipe();
    case TableId::kGenerationMla:
      return GenerationMlaRecipe();
    case TableId::kMlaBmm:
      return MlaBmmRecipe();
    case TableId::kMlaContextModule:
      return MlaContextModuleRecipe();
    case TableId::kMlaGenerationModule:
      return MlaGenerationModuleRecipe();
    case TableId::kWideEpContextMla:
      return WideEpContextMlaRecipe();
    case TableId::kWideEpGenerationMla:
      return WideEpGenerationMlaRecipe();
    case TableId::kDsaContextFull:
      return DsaContextRecipe(false);
    case TableId::kDsaContextSkip:
      return DsaContextRecipe(true);
    case TableId::kDsaGenerationFull:
      return DsaGenerationRecipe(false);
    case TableId::kDsaGenerationSkip:
      return DsaGenerationRecipe(true);
    case TableId::kMsaContext:
      return MsaContextRecipe();
    case TableId::kMsaGeneration:
      return MsaGenerationRecipe();
    case TableId::kDsv4CsaContext:
      return Dsv4ContextRecipe("csa");
    case TableId::kDsv4HcaContext:
      return Dsv4ContextRecipe("hca");
    case TableId::kDsv4CsaGeneration:
      return Dsv4GenerationRecipe("csa");
    case TableId::kDsv4HcaGeneration:
      return Dsv4GenerationRecipe("hca");
    case TableId::kDsv4TopkCalibration:
      return Dsv4TopkCalibrationRecipe();
    case TableId::kDsv4PagedMqaLogits:
      return Dsv4PagedMqaLogitsRecipe();
    case TableId::kGlm5MqaLogits:
      return SparseKernelRecipe("glm5", "mqa_logits");
    case TableId::kGlm5Topk:
      return SparseKernelRecipe("glm5", "topk");
    case TableId::kGlm5DsaAttn:
      return SparseKernelRecipe("glm5", "dsa_attn");
    case TableId::kDsv32MqaLogits:
      return SparseKernelRecipe("dsv32", "mqa_logits");
    case TableId::kDsv32Topk:
      return SparseKernelRecipe("dsv32", "topk");
    case TableId::kDsv32DsaAttn:
      return SparseKernelRecipe("dsv32", "dsa_attn");
    case TableId::kMhc:
      return MhcRecipe();
    case TableId::kGdnContext:
      return GdnRecipe(false);
    case TableId::kGdnGeneration:
      return GdnRecipe(true);
    case TableId::kKdaContext:
      return KdaRecipe(false);
    case TableId::kKdaGeneration:
      return KdaRecipe(true);
    case TableId::kMamba2Context:
      return Mamba2Recipe(false);
    case TableId::kMamba2Generation:
      return Mamba2Recipe(true);
    case TableId::kMoe:
      return MoeRecipe(false);
    case TableId::kMoeLowLatency:
      return MoeRecipe(true);
    case TableId::kMoeAllToAll:
      return MoeAllToAllRecipe();
    case TableId::kMoeExpertCompute:
      return MoeExpertComputeRecipe();
    case TableId::kTrtllmAllToAll:
      return TrtllmAllToAllRecipe();
    case TableId::kCustomAllReduce:
      return CustomAllReduceRecipe();
    case TableId::kNccl:
      return NcclRecipe();
    case TableId::kOneccl:
      return OneCclRecipe();
    case TableId::kMegaMoe:
      return MegaMoeRecipe();
    case TableId::kFpmPrefill:
      return FpmRecipe(FpmPhase::kPrefill);
    case TableId::kFpmDecode:
      return FpmRecipe(FpmPhase::kDecode);
    case TableId::kCount:
      break;
  }
  return {};
}

}  // namespace

const TableRecipe& RecipeOf(TableId id) {
  static const std::array<TableRecipe, kNumTables>* const recipes = [] {
    auto* all = new std::array<TableRecipe, kNumTables>();
    for (std::size_t i = 0; i < kNumTables; ++i) (*all)[i] = Make(static_cast<TableId>(i));
    return all;
  }();
  return (*recipes)[static_cast<std::size_t>(id)];
}

}  // namespace infercast
