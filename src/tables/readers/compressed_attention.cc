// DeepSeek-V4's compressed attention: modules of both kinds, the top-k calibration and the logits
// kernel that context parallelism needs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tables/readers/families.h"

namespace infercast {
namespace {

std::string PlainFp8(std::string_view text) {
  return std::string(text == "fp8_e4m3" ? "fp8" : text);
}

KeyColumn NativeHeadsKey() {
  return {"native_heads",
          false,
          {"num_heads", "tp_size"},
          [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* heads = file.Require("num_heads");
            const ParquetColumn* tp = file.Require("tp_size");
            return [&file, heads, tp](std::size_t row) {
              return file.U32(heads, row) * std::max(1.0, file.U32(tp, row));
            };
          }};
}

// Older files counted the heads of the whole model in num_heads. Such rows are recognised by a head
// count that stays the same over several tensor-parallel sizes.
class HeadSemanticsGuard {
 public:
  void Note(std::string_view model, std::string_view version, double heads, double tp) {
    const Pair pair{heads, tp};
    if (last_ != nullptr && last_model_ == model && last_version_ == version) {
      last_->insert(pair);
      return;
    }
    last_model_ = model;
    last_version_ = version;
    last_ = &groups_[{last_model_, last_version_}];
    last_->insert(pair);
  }
  Status Check() const {
    for (const auto& [group, pairs] : groups_) {
      std::set<double> tps, heads, products;
      for (const auto& [head, tp] : pairs) {
        heads.insert(head);
        tps.insert(tp);
        products.insert(head * std::max(1.0, tp));
      }
      if (tps.size() >= 2 && heads.size() == 1 && products.size() > 1) {
        return Fail(ErrorKind::kPerfDatabase,
                    fmt::format("DSV4 module rows of model '{}' version '{}' keep num_heads "
                                "constant over tp_size: they count the whole model's heads, not a "
                                "rank's",
                                group.first, group.second));
      }
    }
    return {};
  }

 private:
  using Pair = std::pair<double, double>;
  std::map<std::pair<std::string, std::string>, std::set<Pair>> groups_;
  std::string last_model_, last_version_;
  std::set<Pair>* last_ = nullptr;
};

// `collapse`: of rows whose isl + step agree, the one of larger step wins.
TableRecipe ModuleRecipe(std::string basename, std::vector<KeyColumn> keys, bool collapse) {
  TableRecipe recipe;
  recipe.basenames = {std::move(basename)};
  recipe.keys = std::move(keys);
  recipe.more_columns = {"model", "version", "num_heads", "tp_size", "step"};
  recipe.custom = [collapse](const LoadContext&, const TableRecipe& self) -> CustomReader {
    auto guard = std::make_shared<HeadSemanticsGuard>();
    const auto read = [guard, collapse, &self](RowFile& file, TableBuilder& builder,
                                               std::uint64_t) {
      const ParquetColumn* model = file.Optional("model");
      const ParquetColumn* version = file.Optional("version");
      const ParquetColumn* heads = file.Require("num_heads");
      const ParquetColumn* tp = file.Require("tp_size");
      const ParquetColumn* step = file.Require("step");
      ForEachRow(self, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        guard->Note(RowFile::OptionalText(model, row).value_or(""),
                    RowFile::OptionalText(version, row).value_or(""), file.U32(heads, row),
                    file.U32(tp, row));
        builder.Add(keys, leaf,
                    collapse ? 0xFFFFFFFFULL - static_cast<std::uint64_t>(file.U32(step, row)) : 0);
      });
    };
    return {read, [guard](TableBuilder&) { return guard->Check(); }};
  };
  return recipe;
}

}  // namespace

TableRecipe Dsv4ContextRecipe(std::string_view kind) {
  return ModuleRecipe(
      fmt::format("dsv4_{}_context_module_perf", kind),
      {RewrittenTextKey("mla_dtype", "mla_dtype", PlainFp8),
       RewrittenTextKey("kv_cache_dtype", "kv_cache_dtype", PlainFp8),
       TextKey("gemm_type", "gemm_type"), NativeHeadsKey(), U32Key("local_heads", "num_heads"),
       U32Key("prefix", "step"), U32Key("seq", "isl"), U32Key("batch", "batch_size")},
      false);
}

TableRecipe Dsv4GenerationRecipe(std::string_view kind) {
  return ModuleRecipe(
      fmt::format("dsv4_{}_generation_module_perf", kind),
      {RewrittenTextKey("kv_cache_dtype", "kv_cache_dtype", PlainFp8),
       TextKey("gemm_type", "gemm_type"), NativeHeadsKey(), U32Key("local_heads", "num_heads"),
       U32Key("batch", "batch_size"), SumKey("seq", "isl", "step")},
      true);
}

TableRecipe Dsv4TopkCalibrationRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"dsv4_csa_topk_calib_perf"};
  recipe.latency_only = true;
  recipe.empty_is_fine = true;
  recipe.keys = {OptionalU32Key("num_heads", "num_heads", 0), TextKey("score_mode", "score_mode"),
                 U32Key("step", "step"), U32Key("seq", "isl"), U32Key("batch", "batch_size")};
  recipe.only = [](RowFile& file) -> RowRule {
    const ParquetColumn* heads = file.Optional("num_heads");
    return [&file, heads](std::size_t row) { return file.OptionalU32(heads, row).has_value(); };
  };
  return recipe;
}

TableRecipe Dsv4PagedMqaLogitsRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"dsv4_paged_mqa_logits_module_perf"};
  recipe.latency_only = true;
  recipe.empty_is_fine = true;
  recipe.keys = {U32Key("num_heads", "num_heads"), U32Key("tp_size", "tp_size"),
                 U32Key("step", "step"), U32Key("seq", "isl"), U32Key("batch", "batch_size")};
  return recipe;
}

}  // namespace infercast
