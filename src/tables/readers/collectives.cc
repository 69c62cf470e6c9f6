// Collective communication: a framework's own all-reduce and the system's collective libraries.
#include "tables/readers/families.h"

namespace infercast {

TableRecipe CustomAllReduceRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"custom_allreduce_perf"};
  // The kernels move bytes: rows of any stored number format are served as half.
  recipe.keys = {FixedTextKey("dtype", "half"), U32Key("num_gpus", "num_gpus"),
                 U64Key("message_size", "message_size")};
  recipe.more_columns = {"backend"};
  recipe.only = [](RowFile& file) -> RowRule {
    // Eager rows time the host's launches as well; on b60 there are no others.
    if (file.source().path.find("/b60/") != std::string::npos) return {};
    const ParquetColumn* kernel = file.Optional("kernel_source");
    const ParquetColumn* backend = file.Optional("backend");
    return [kernel, backend](std::size_t row) {
      for (const ParquetColumn* column : {kernel, backend}) {
        const auto text = RowFile::OptionalText(column, row);
        if (text && text->ends_with("_eager")) return false;
      }
      return true;
    };
  };
  return recipe;
}

namespace {
TableRecipe CollectiveRecipe(std::string basename, SourceRule rule) {
  TableRecipe recipe;
  recipe.basenames = {std::move(basename)};
  recipe.sources = rule;
  recipe.keys = {TextKey("nccl_dtype", "nccl_dtype"), TextKey("op_name", "op_name"),
                 U32Key("num_gpus", "num_gpus"), U64Key("message_size", "message_size")};
  return recipe;
}
}  // namespace

TableRecipe NcclRecipe() { return CollectiveRecipe("nccl_perf", SourceRule::kNccl); }
TableRecipe OneCclRecipe() { return CollectiveRecipe("oneccl_perf", SourceRule::kOneccl); }

}  // namespace infercast
