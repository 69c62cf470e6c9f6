// Latent attention (MLA): single kernels, whole modules, and the wide expert-parallel variants.
#include <fmt/format.h>

#include <algorithm>

#include "tables/readers/families.h"

namespace infercast {
namespace {

TableRecipe Recipe(std::string basename, std::vector<KeyColumn> keys) {
  TableRecipe recipe;
  recipe.basenames = {std::move(basename)};
  recipe.keys = std::move(keys);
  return recipe;
}

// Context rows carry a step column too, which must be sound although it is always 0.
KeyColumn CheckedStep(KeyColumn key) {
  key.columns.push_back("step");
  key.open = [open = key.open](RowFile& file, TableBuilder& builder, std::size_t at) -> KeyCell {
    const ParquetColumn* step = file.Require("step");
    return [&file, step, cell = open(file, builder, at)](std::size_t row) {
      file.U32(step, row);
      return cell(row);
    };
  };
  return key;
}

std::optional<double> NativeHeads(std::string_view model) {
  if (model == "deepseek-ai/DeepSeek-V3" || model == "deepseek-ai/DeepSeek-R1" ||
      model == "nvidia/DeepSeek-V3.1-NVFP4") {
    return 128;
  }
  if (model == "moonshotai/Kimi-K3") return 96;
  return std::nullopt;
}

// The head count of the whole model, which the rows tell only by the model's name. Rows of a model
// we do not know, or whose head count does not fit their tensor parallelism, spoil the table: their
// latencies could be filed under the wrong model.
KeyColumn NativeHeadsKey() {
  return {
      "native_heads",
      false,
      {"model", "num_heads", "tp_size"},
      [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
        const ParquetColumn* model = file.Require("model");
        const ParquetColumn* heads = file.Require("num_heads");
        const ParquetColumn* tp = file.Optional("tp_size");
        return [&file, model, heads, tp](std::size_t row) {
          const std::string_view name = file.Text(model, row);
          const auto native = NativeHeads(name);
          if (!native) {
            file.SetError(ErrorKind::kPerfDatabase,
                          fmt::format("MLA module rows of model '{}' have no known head count "
                                      "at {}",
                                      name, file.source().path));
            return 0.0;
          }
          const double ranks = std::max(1.0, file.OptionalU32(tp, row).value_or(1));
          if (ranks > 1 && file.U32(heads, row) * ranks != *native) {
            file.SetError(
                ErrorKind::kPerfDatabase,
                fmt::format("MLA module row {} of model '{}': {} heads on {} ranks are not {} "
                            "heads at {}",
                            row, name, file.U32(heads, row), ranks, *native, file.source().path));
          }
          return *native;
        };
      }};
}

KeyColumn MlaDtype() { return TextKey("mla_dtype", "mla_dtype"); }
KeyColumn KvDtype() { return TextKey("kv_cache_dtype", "kv_cache_dtype"); }
KeyColumn GemmType() { return TextKey("gemm_type", "gemm_type"); }
KeyColumn Heads() { return U32Key("num_heads", "num_heads"); }
KeyColumn Batch() { return U32Key("batch", "batch_size"); }
KeyColumn ContextSeq() { return U32Key("seq", "isl"); }
KeyColumn GenerationSeq() { return SumKey("seq", "isl", "step"); }

}  // namespace

TableRecipe ContextMlaRecipe() {
  return Recipe("context_mla_perf",
                {MlaDtype(), KvDtype(), Heads(), CheckedStep(ContextSeq()), Batch()});
}
TableRecipe GenerationMlaRecipe() {
  return Recipe("generation_mla_perf", {KvDtype(), Heads(), Batch(), GenerationSeq()});
}
TableRecipe MlaBmmRecipe() {
  return Recipe("mla_bmm_perf", {TextKey("bmm_dtype", "bmm_dtype"), TextKey("op_name", "op_name"),
                                 Heads(), U32Key("num_tokens", "num_tokens")});
}
TableRecipe MlaContextModuleRecipe() {
  return Recipe("mla_context_module_perf", {MlaDtype(), KvDtype(), GemmType(), NativeHeadsKey(),
                                            Heads(), CheckedStep(ContextSeq()), Batch()});
}
TableRecipe MlaGenerationModuleRecipe() {
  return Recipe("mla_generation_module_perf",
                {KvDtype(), GemmType(), NativeHeadsKey(), Heads(), Batch(), GenerationSeq()});
}
TableRecipe WideEpContextMlaRecipe() {
  TableRecipe recipe =
      Recipe("wideep_context_mla_perf", {TextKey("kernel_source", "kernel_source"), MlaDtype(),
                                         KvDtype(), Heads(), ContextSeq(), Batch()});
  recipe.latency_only = true;
  return recipe;
}
TableRecipe WideEpGenerationMlaRecipe() {
  TableRecipe recipe = Recipe(
      "wideep_generation_mla_perf",
      {TextKey("kernel_source", "kernel_source"), KvDtype(), Heads(), Batch(), GenerationSeq()});
  recipe.latency_only = true;
  return recipe;
}

}  // namespace infercast
