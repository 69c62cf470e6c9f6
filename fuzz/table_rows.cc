// A measured table's rows as a reader meets them after decoding: columns that are absent, of
// another type or null in places, cells beyond every range. Rows of a shipped file are much tamer.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "table_walk.h"
#include "tables/readers/recipe.h"
#include "tables/table_image.h"

namespace {

using namespace infercast;

// Texts that readers look for, and others.
constexpr std::string_view kWords[] = {
    "",           "bfloat16",   "fp8",        "fp8_block",  "nvfp4",         "float16",
    "default",    "context",    "generation", "prefill",    "decode",        "true",
    "balanced",   "flashinfer", "uniform",    "power_law",  "power_law_1.2", "combine",
    "dispatch",   "trtllm",     "hc_mult",    "all_reduce", "mla_gen_pre",   "[1, 2",
    "{\"a\": 1}", "1,2,3",      "x|y",        "csa"};

// What readers most likely expect of a column.
ParquetColumn::Type ExpectedType(const TableRecipe& recipe, std::string_view name) {
  if (name == "kernel_source") return ParquetColumn::Type::kText;
  if (name == "latency" || name == "power" || name.ends_with("_us") || name.ends_with("factor")) {
    return ParquetColumn::Type::kReal;
  }
  for (const KeyColumn& key : recipe.keys) {
    if (key.is_text && std::ranges::find(key.columns, name) != key.columns.end()) {
      return ParquetColumn::Type::kText;
    }
  }
  return ParquetColumn::Type::kInteger;
}

ParquetColumn MadeUpColumn(FuzzedDataProvider& in, std::string_view name, std::size_t rows,
                           ParquetColumn::Type expected) {
  ParquetColumn column;
  column.name = name;
  column.type = expected;
  if (in.ConsumeIntegralInRange<int>(0, 15) == 0) {
    column.type = in.PickValueInArray({ParquetColumn::Type::kText, ParquetColumn::Type::kInteger,
                                       ParquetColumn::Type::kReal, ParquetColumn::Type::kBoolean,
                                       ParquetColumn::Type::kOther});
  }
  for (std::size_t row = 0; row < rows; ++row) {
    switch (column.type) {
      case ParquetColumn::Type::kText: {
        std::string text(in.ConsumeProbability<float>() < 0.9F ? in.PickValueInArray(kWords)
                                                               : std::string_view());
        if (text.empty()) text = in.ConsumeRandomLengthString(20);
        const auto found = std::ranges::find(column.dictionary, text);
        column.codes.push_back(static_cast<std::uint32_t>(found - column.dictionary.begin()));
        if (found == column.dictionary.end()) column.dictionary.push_back(std::move(text));
        break;
      }
      case ParquetColumn::Type::kInteger:
        column.integers.push_back(in.ConsumeBool() ? in.ConsumeIntegralInRange<std::int64_t>(0, 300)
                                                   : in.ConsumeIntegral<std::int64_t>());
        break;
      case ParquetColumn::Type::kBoolean:
        column.integers.push_back(in.ConsumeBool() ? 1 : 0);
        break;
      case ParquetColumn::Type::kReal:
        column.reals.push_back(in.ConsumeBool() ? in.ConsumeProbability<double>()
                                                : in.ConsumeFloatingPoint<double>());
        break;
      case ParquetColumn::Type::kOther:
        break;
    }
  }
  if (in.ConsumeIntegralInRange<int>(0, 7) == 0) {
    for (std::size_t row = 0; row < rows; ++row) column.nulls.push_back(in.ConsumeBool());
  }
  if (column.type == ParquetColumn::Type::kText && column.dictionary.empty()) {
    column.dictionary.emplace_back();
  }
  return column;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  const auto id = static_cast<TableId>(in.ConsumeIntegralInRange<std::size_t>(0, kNumTables - 1));
  const TableRecipe& recipe = RecipeOf(id);

  std::vector<std::string_view> names = {"latency", "power", "kernel_source"};
  std::vector<TableBuilder::Level> levels;
  for (const KeyColumn& key : recipe.keys) {
    levels.push_back({key.level, key.is_text});
    names.insert(names.end(), key.columns.begin(), key.columns.end());
  }
  names.insert(names.end(), recipe.more_columns.begin(), recipe.more_columns.end());

  SystemSpec system;
  system.mem_bw = 1e12;
  system.bfloat16_tc_flops = 1e14;
  const DatabaseIdentity identity;
  const LoadContext context{system, identity};
  TableBuilder builder(std::move(levels));
  const CustomReader custom = recipe.custom ? recipe.custom(context, recipe) : CustomReader();
  const LeafRule adjust = recipe.adjust ? recipe.adjust(context, builder) : LeafRule();
  const int files = in.ConsumeIntegralInRange<int>(1, 2);
  for (int i = 0; i < files; ++i) {
    ParquetColumns columns;
    columns.num_rows = in.ConsumeIntegralInRange<std::size_t>(0, 6);
    for (const std::string_view name : names) {
      columns.all_names.emplace_back(name);
      if (columns.Find(name) != nullptr || in.ConsumeIntegralInRange<int>(0, 40) == 0) continue;
      columns.columns.push_back(
          MadeUpColumn(in, name, columns.num_rows, ExpectedType(recipe, name)));
    }
    const TableSource source{"1.0.0", "made-up", SourceChannel::kPrimary, true, std::nullopt};
    const std::size_t basename =
        in.ConsumeIntegralInRange<std::size_t>(0, recipe.basenames.size() - 1);
    RowFile file(columns, source, recipe.basenames[basename]);
    builder.BeginSource(static_cast<std::uint16_t>(i));
    if (custom.read) {
      custom.read(file, builder, static_cast<std::uint64_t>(i));
    } else {
      ForEachRow(recipe, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        if (adjust) adjust(keys, leaf);
        builder.Add(keys, leaf, LateRowsFirst(static_cast<std::uint64_t>(i), row));
      });
    }
    if (!file.ok()) return 0;
  }
  if (custom.finish && !custom.finish(builder)) return 0;
  const auto image = std::make_shared<const std::vector<std::uint64_t>>(
      EncodeTableImage(std::move(builder).Finish(), {1, 2}));
  const auto table = DecodeTableImage(std::as_bytes(std::span(*image)), {1, 2}, image);
  if (table) fuzzing::WalkTable(**table);
  return 0;
}
