// Sparse attention with an indexer (DSA) or blocks (MSA): module tables and the single kernels that
// context parallelism is put together from.
#include <array>

#include "tables/readers/families.h"

namespace infercast {
namespace {

constexpr std::array<std::string_view, 2> kBuckets = {"trtllm", "flashmla_kv"};

// Which implementations a row speaks for: bit 0 = trtllm, bit 1 = flashmla_kv.
unsigned BucketsOf(std::string_view kv_dtype, std::string_view kernel) {
  if (kv_dtype == "bfloat16") return 3;
  if (kernel == "sglang_dsa_indexer_flashmla_sparse" ||
      kernel == "sglang_dsa_skip_indexer_flashmla_sparse") {
    return 2;
  }
  if (kernel == "sglang_dsa_dense_mha_trtllm_ragged") return 3;
  return kernel.find("trtllm") != std::string_view::npos ? 1 : 2;
}

// Adds each row once for each of its buckets.
void AddToBuckets(RowFile& file, TableBuilder& builder, std::size_t bucket_level, std::size_t row,
                  std::span<double> keys, const Leaf& leaf, std::uint64_t rank) {
  const std::string_view kv = file.Text(file.Optional("kv_cache_dtype"), row);
  const std::string_view kernel =
      RowFile::OptionalText(file.Optional("kernel_source"), row).value_or("");
  const unsigned buckets = BucketsOf(kv, kernel);
  for (std::size_t b = 0; b < kBuckets.size(); ++b) {
    if ((buckets >> b & 1U) == 0) continue;
    keys[bucket_level] = builder.Code(bucket_level, kBuckets[b]);
    builder.Add(keys, leaf, rank);
  }
}

std::function<RowRule(RowFile&)> OnlySkip(bool skip) {
  return [skip](RowFile& file) -> RowRule {
    const ParquetColumn* op = file.Optional("op_name");
    return [op, skip](std::size_t row) {
      const std::string_view name = RowFile::OptionalText(op, row).value_or("");
      return (name.find("skip_indexer") != std::string_view::npos) == skip;
    };
  };
}

std::vector<KeyColumn> ModuleKeys() {
  return {TextKey("mla_dtype", "mla_dtype"), TextKey("kv_cache_dtype", "kv_cache_dtype"),
          TextKey("gemm_type", "gemm_type"), TextKey("architecture", "architecture"),
          OpenKey("bucket", true)};
}

TableRecipe ModuleRecipe(std::string basename, bool skip, std::vector<KeyColumn> axes) {
  TableRecipe recipe;
  recipe.basenames = {std::move(basename)};
  recipe.keys = ModuleKeys();
  recipe.keys.insert(recipe.keys.end(), axes.begin(), axes.end());
  recipe.more_columns = {"op_name"};
  recipe.duplicates = Duplicates::kLastInFile;
  recipe.only = OnlySkip(skip);
  recipe.custom = [](const LoadContext&, const TableRecipe& self) -> CustomReader {
    return {[&self](RowFile& file, TableBuilder& builder, std::uint64_t source) {
              ForEachRow(
                  self, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
                    AddToBuckets(file, builder, 4, row, keys, leaf, LateRowsFirst(source, row));
                  });
            },
            {}};
  };
  return recipe;
}

std::vector<KeyColumn> ContextAxes() {
  return {U32Key("num_heads", "num_heads"), U32Key("prefix", "step"), U32Key("seq", "isl"),
          U32Key("batch", "batch_size")};
}
std::vector<KeyColumn> GenerationAxes() {
  return {U32Key("num_heads", "num_heads"), U32Key("batch", "batch_size"),
          SumKey("seq", "isl", "step")};
}

}  // namespace

TableRecipe DsaContextRecipe(bool skip) {
  return ModuleRecipe("dsa_context_module_perf", skip, ContextAxes());
}
TableRecipe DsaGenerationRecipe(bool skip) {
  return ModuleRecipe("dsa_generation_module_perf", skip, GenerationAxes());
}
TableRecipe MsaContextRecipe() {
  return ModuleRecipe("msa_context_module_perf", false, ContextAxes());
}

// Decoding ignores the number format of the prefill's attention: its level is merged away, rows of
// the format that sorts last win.
TableRecipe MsaGenerationRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"msa_generation_module_perf"};
  recipe.keys = {TextKey("kv_cache_dtype", "kv_cache_dtype"), TextKey("gemm_type", "gemm_type"),
                 TextKey("architecture", "architecture"), OpenKey("bucket", true)};
  for (KeyColumn& axis : GenerationAxes()) recipe.keys.push_back(std::move(axis));
  recipe.more_columns = {"op_name", "mla_dtype"};
  recipe.duplicates = Duplicates::kLastInFile;
  recipe.only = OnlySkip(false);
  recipe.custom = [](const LoadContext&, const TableRecipe& self) -> CustomReader {
    struct State {
      std::vector<std::string> formats;      // distinct mla_dtype texts
      std::vector<std::uint32_t> format_of;  // per row of the builder
    };
    auto state = std::make_shared<State>();
    const auto read = [state, &self](RowFile& file, TableBuilder& builder, std::uint64_t source) {
      const ParquetColumn* dtype = file.Require("mla_dtype");
      ForEachRow(self, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        const std::string_view text = file.Text(dtype, row);
        if (!file.ok()) return;
        std::uint32_t format = 0;
        while (format < state->formats.size() && state->formats[format] != text) ++format;
        if (format == state->formats.size()) state->formats.emplace_back(text);
        AddToBuckets(file, builder, 3, row, keys, leaf, LateRowsFirst(source, row));
        state->format_of.resize(builder.num_rows(), format);
      });
    };
    const auto finish = [state](TableBuilder& builder) -> Status {
      for (std::size_t row = 0; row < builder.num_rows(); ++row) {
        const std::string& mine = state->formats[state->format_of[row]];
        std::uint64_t later = 0;
        for (const std::string& other : state->formats) later += mine < other ? 1 : 0;
        builder.RowRank(row) |= later << 56;
      }
      return {};
    };
    return {read, finish};
  };
  return recipe;
}

TableRecipe SparseKernelRecipe(std::string_view prefix, std::string_view kernel) {
  TableRecipe recipe;
  recipe.basenames = {std::string(prefix) + "_" + std::string(kernel) + "_module_perf"};
  recipe.latency_only = true;
  recipe.empty_is_fine = true;
  recipe.duplicates = Duplicates::kLastInFile;
  // A file without head counts serves every head count: its rows stand under -1.
  recipe.keys = {
      {"num_heads", false, {"num_heads"}, [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
         const ParquetColumn* heads = file.Optional("num_heads");
         return
             [&file, heads](std::size_t row) { return file.OptionalU32(heads, row).value_or(-1); };
       }}};
  if (kernel == "topk") {
    recipe.keys.push_back(
        {"flat", false, {"score_mode"}, [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
           const ParquetColumn* mode = file.Optional("score_mode");
           return [mode](std::size_t row) {
             return RowFile::OptionalText(mode, row) == "flat" ? 1.0 : 0.0;
           };
         }});
  }
  recipe.keys.push_back(U32Key("batch", "batch_size"));
  recipe.keys.push_back(U32Key("seq", "isl"));
  recipe.keys.push_back(U32Key("step", "step"));
  recipe.only = [](RowFile& file) -> RowRule {
    const ParquetColumn* heads = file.Optional("num_heads");
    if (heads == nullptr) return {};
    return [&file, heads](std::size_t row) { return file.OptionalU32(heads, row).has_value(); };
  };
  return recipe;
}

}  // namespace infercast
