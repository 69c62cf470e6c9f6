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
    case TableId::kMoe:
      return MoeRecipe(false);
    case TableId::kMoeLowLatency:
      return MoeRecipe(true);
    case TableId::kCustomAllReduce:
      return CustomAllReduceRecipe();
    case TableId::kNccl:
      return NcclRecipe();
    case TableId::kOneccl:
      return OneCclRecipe();
    default:
      return {};
  }
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
