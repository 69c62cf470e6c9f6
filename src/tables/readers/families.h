// The table descriptions, one function a table, one file a family.
#pragma once

#include "tables/readers/recipe.h"

namespace infercast {

// dense.cc
TableRecipe GemmRecipe();
TableRecipe ComputeScaleRecipe();
TableRecipe ScaleMatrixRecipe();
// attention.cc
TableRecipe ContextAttentionRecipe();
TableRecipe GenerationAttentionRecipe();
TableRecipe EncoderAttentionRecipe();
// latent_attention.cc
TableRecipe ContextMlaRecipe();
TableRecipe GenerationMlaRecipe();
TableRecipe MlaBmmRecipe();
TableRecipe MlaContextModuleRecipe();
TableRecipe MlaGenerationModuleRecipe();
TableRecipe WideEpContextMlaRecipe();
TableRecipe WideEpGenerationMlaRecipe();
// sparse_attention.cc
TableRecipe DsaContextRecipe(bool skip);
TableRecipe DsaGenerationRecipe(bool skip);
TableRecipe MsaContextRecipe();
TableRecipe MsaGenerationRecipe();
// `prefix` is glm5 or dsv32, `kernel` mqa_logits, topk or dsa_attn.
TableRecipe SparseKernelRecipe(std::string_view prefix, std::string_view kernel);
// compressed_attention.cc; `kind` is csa or hca
TableRecipe Dsv4ContextRecipe(std::string_view kind);
TableRecipe Dsv4GenerationRecipe(std::string_view kind);
TableRecipe Dsv4TopkCalibrationRecipe();
TableRecipe Dsv4PagedMqaLogitsRecipe();
// state_space.cc
TableRecipe MhcRecipe();
TableRecipe GdnRecipe(bool generation);
TableRecipe KdaRecipe(bool generation);
TableRecipe Mamba2Recipe(bool generation);
// experts.cc
TableRecipe MoeRecipe(bool low_latency);
TableRecipe MoeExpertComputeRecipe();
TableRecipe MegaMoeRecipe();
// expert_exchange.cc
TableRecipe MoeAllToAllRecipe();
TableRecipe TrtllmAllToAllRecipe();
// collectives.cc
TableRecipe CustomAllReduceRecipe();
TableRecipe NcclRecipe();
TableRecipe OneCclRecipe();
// forward_pass.cc
TableRecipe FpmRecipe(FpmPhase phase);

}  // namespace infercast
