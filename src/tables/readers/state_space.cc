// Linear attention and state-space kernels (GDN, KDA, Mamba2), and hyper-connections (mHC).
#include <utility>

#include "tables/readers/families.h"

namespace infercast {
namespace {

// Keeps the rows of one of the two tables that share a file.
std::function<RowRule(RowFile&)> OnlyPhases(std::function<bool(std::string_view)> keep) {
  return [keep = std::move(keep)](RowFile& file) -> RowRule {
    const ParquetColumn* phase = file.Require("phase");
    return [&file, phase, keep](std::size_t row) { return keep(file.Text(phase, row)); };
  };
}

// The recurrence has one name at query time, whatever implementation was timed for it.
std::string GdnKernel(std::string_view kernel) {
  if (kernel == "fused_recurrent_gated_delta_rule" ||
      kernel == "fused_recurrent_gated_delta_rule_packed_decode") {
    return "fused_sigmoid_gating_delta_rule_update";
  }
  return std::string(kernel);
}

void AddAxes(TableRecipe& recipe, bool generation) {
  recipe.keys.push_back(U32Key("batch", "batch_size"));
  if (!generation) recipe.keys.push_back(U32Key("seq", "seq_len"));
}

std::vector<KeyColumn> DeltaRuleShape() {
  return {U32Key("d_model", "d_model"),         U32Key("d_conv", "d_conv"),
          U32Key("num_k_heads", "num_k_heads"), U32Key("head_k_dim", "head_k_dim"),
          U32Key("num_v_heads", "num_v_heads"), U32Key("head_v_dim", "head_v_dim")};
}

}  // namespace

TableRecipe MhcRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"mhc_module_perf"};
  recipe.keys = {TextKey("op_name", "op_name"), U32Key("hc_mult", "hc_mult"),
                 U32Key("hidden_size", "hidden_size"), U32Key("num_tokens", "num_tokens")};
  return recipe;
}

TableRecipe GdnRecipe(bool generation) {
  TableRecipe recipe;
  recipe.basenames = {"gdn_perf"};
  recipe.keys = {RewrittenTextKey("kernel_source", "kernel_source", GdnKernel),
                 TextKey("phase", "phase")};
  for (KeyColumn& key : DeltaRuleShape()) recipe.keys.push_back(std::move(key));
  AddAxes(recipe, generation);
  recipe.only = OnlyPhases(
      [generation](std::string_view phase) { return (phase == "generation") == generation; });
  return recipe;
}

TableRecipe KdaRecipe(bool generation) {
  TableRecipe recipe;
  recipe.basenames = {"kda_perf"};
  recipe.keys = {TextKey("kernel_source", "kernel_source"), TextKey("phase", "phase")};
  for (KeyColumn& key : DeltaRuleShape()) recipe.keys.push_back(std::move(key));
  AddAxes(recipe, generation);
  recipe.only = OnlyPhases([generation](std::string_view phase) {
    return (phase != "context" && phase != "verify") == generation;
  });
  return recipe;
}

TableRecipe Mamba2Recipe(bool generation) {
  TableRecipe recipe;
  recipe.basenames = {"mamba2_perf"};
  recipe.keys = {TextKey("kernel_source", "kernel_source"),
                 TextKey("phase", "phase"),
                 U32Key("d_model", "d_model"),
                 U32Key("d_state", "d_state"),
                 U32Key("d_conv", "d_conv"),
                 U32Key("nheads", "nheads"),
                 U32Key("head_dim", "head_dim"),
                 U32Key("n_groups", "n_groups"),
                 U32Key("chunk_size", "chunk_size")};
  AddAxes(recipe, generation);
  recipe.only = OnlyPhases(
      [generation](std::string_view phase) { return (phase == "generation") == generation; });
  return recipe;
}

}  // namespace infercast
