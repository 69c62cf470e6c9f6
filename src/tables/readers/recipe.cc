// Runs table descriptions over decoded files.
#include "tables/readers/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tables/data_package.h"

namespace infercast {
namespace {

// Reads text cells as codes of a level; each dictionary entry of the file is interned once.
KeyCell TextCell(RowFile& file, TableBuilder& builder, std::size_t level,
                 const ParquetColumn* column,
                 std::function<std::string(std::string_view)> rewrite = {}) {
  std::vector<double> known;
  if (column != nullptr) {
    known.assign(column->dictionary.size(), std::numeric_limits<double>::quiet_NaN());
  }
  return [&file, &builder, level, column, rewrite = std::move(rewrite),
          known = std::move(known)](std::size_t row) mutable -> double {
    const std::string_view text = file.Text(column, row);
    if (!file.ok()) return 0;
    double& code = known[column->codes[row]];
    if (std::isnan(code)) {
      code = rewrite ? builder.Code(level, rewrite(text)) : builder.Code(level, text);
    }
    return code;
  };
}

}  // namespace

KeyColumn TextKey(std::string level, std::string_view column) {
  return {std::move(level),
          true,
          {column},
          [column](RowFile& file, TableBuilder& builder, std::size_t at) {
            return TextCell(file, builder, at, file.Require(column));
          }};
}
KeyColumn RewrittenTextKey(std::string level, std::string_view column,
                           std::function<std::string(std::string_view)> rewrite) {
  return {
      std::move(level),
      true,
      {column},
      [column, rewrite = std::move(rewrite)](RowFile& file, TableBuilder& builder, std::size_t at) {
        return TextCell(file, builder, at, file.Require(column), rewrite);
      }};
}
KeyColumn OptionalTextKey(std::string level, std::string_view column, std::string fallback) {
  return {std::move(level),
          true,
          {column},
          [column, fallback = std::move(fallback)](RowFile& file, TableBuilder& builder,
                                                   std::size_t at) -> KeyCell {
            const ParquetColumn* cells = file.Optional(column);
            return [&builder, at, cells, fallback](std::size_t row) {
              const auto text = RowFile::OptionalText(cells, row);
              return builder.Code(at, text ? *text : fallback);
            };
          }};
}
KeyColumn FixedTextKey(std::string level, std::string text) {
  return {std::move(level),
          true,
          {},
          [text = std::move(text)](RowFile&, TableBuilder& builder, std::size_t at) -> KeyCell {
            return [&builder, at, text](std::size_t) { return builder.Code(at, text); };
          }};
}
KeyColumn U32Key(std::string level, std::string_view column) {
  return {std::move(level),
          false,
          {column},
          [column](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* cells = file.Require(column);
            return [&file, cells](std::size_t row) { return file.U32(cells, row); };
          }};
}
KeyColumn U64Key(std::string level, std::string_view column) {
  return {std::move(level),
          false,
          {column},
          [column](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* cells = file.Require(column);
            return [&file, cells](std::size_t row) { return file.U64(cells, row); };
          }};
}
KeyColumn OptionalU32Key(std::string level, std::string_view column, double fallback) {
  return {std::move(level),
          false,
          {column},
          [column, fallback](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* cells = file.Optional(column);
            return [&file, cells, fallback](std::size_t row) {
              return file.OptionalU32(cells, row).value_or(fallback);
            };
          }};
}
KeyColumn SumKey(std::string level, std::string_view column, std::string_view other) {
  return {std::move(level),
          false,
          {column, other},
          [column, other](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* a = file.Require(column);
            const ParquetColumn* b = file.Require(other);
            return [&file, a, b](std::size_t row) { return file.U32(a, row) + file.U32(b, row); };
          }};
}

KeyColumn OpenKey(std::string level, bool is_text, std::vector<std::string_view> columns) {
  return {std::move(level), is_text, std::move(columns),
          [](RowFile&, TableBuilder&, std::size_t) -> KeyCell {
            return [](std::size_t) { return 0.0; };
          }};
}

void ForEachRow(const TableRecipe& recipe, RowFile& file, TableBuilder& builder,
                const RowSink& sink) {
  std::vector<KeyCell> cells;
  for (std::size_t i = 0; i < recipe.keys.size(); ++i) {
    cells.push_back(recipe.keys[i].open(file, builder, i));
  }
  const ParquetColumn* latency = file.Require("latency");
  const bool reads_power = !recipe.latency_only && file.reads_power();
  const ParquetColumn* power = reads_power ? file.Optional("power") : nullptr;
  const RowRule only = recipe.only ? recipe.only(file) : RowRule();
  std::vector<double> keys(cells.size());
  for (std::size_t row = 0; row < file.num_rows() && file.ok(); ++row) {
    if (!file.Passes(row) || (only && !only(row))) continue;
    for (std::size_t i = 0; i < cells.size(); ++i) keys[i] = cells[i](row);
    Leaf leaf;
    leaf.latency = file.Real(latency, row);
    leaf.power =
        recipe.strict_power ? file.Real(power, row) : RowFile::OptionalReal(power, row).value_or(0);
    leaf.energy = leaf.power * leaf.latency;
    if (!file.ok()) return;
    sink(row, keys, leaf);
  }
}

std::expected<TableParts, LoadFailure> LoadRows(const TableRecipe& recipe,
                                                std::span<const PlannedSource> plan,
                                                const LoadContext& context) {
  std::vector<TableBuilder::Level> levels;
  std::vector<std::string_view> wanted = {"latency", "kernel_source"};
  if (!recipe.latency_only) wanted.push_back("power");
  for (const KeyColumn& key : recipe.keys) {
    levels.push_back({key.level, key.is_text});
    wanted.insert(wanted.end(), key.columns.begin(), key.columns.end());
  }
  wanted.insert(wanted.end(), recipe.more_columns.begin(), recipe.more_columns.end());

  TableBuilder builder(std::move(levels));
  const CustomReader custom = recipe.custom ? recipe.custom(context, recipe) : CustomReader();
  const LeafRule adjust = recipe.adjust ? recipe.adjust(context, builder) : LeafRule();
  std::optional<bool> reads_power;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const PlannedSource& planned = plan[i];
    if (!planned.source.exists) continue;
    if (const Status intact = VerifyDataPackageFile(planned.source.path); !intact) {
      return std::unexpected(LoadFailure{intact.error(), true});
    }
    auto columns = ReadParquet(planned.source.path, wanted);
    if (!columns) return std::unexpected(LoadFailure{columns.error(), true});
    RowFile file(*columns, planned.source, recipe.basenames[planned.basename]);
    if (recipe.first_file_decides_power) {
      if (!reads_power) reads_power = columns->Find("power") != nullptr;
      file.set_reads_power(*reads_power);
    }
    builder.BeginSource(static_cast<std::uint16_t>(i));
    const bool late_wins = recipe.duplicates == Duplicates::kLastInFile;
    const std::uint64_t rank = late_wins ? i : planned.rank;
    if (custom.read) {
      custom.read(file, builder, rank);
    } else {
      ForEachRow(recipe, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        if (adjust) adjust(keys, leaf);
        builder.Add(keys, leaf, late_wins ? LateRowsFirst(rank, row) : rank);
      });
    }
    if (!file.ok()) return std::unexpected(LoadFailure{file.error(), true});
  }
  if (custom.finish) {
    if (const Status status = custom.finish(builder); !status) {
      return std::unexpected(LoadFailure{status.error(), true});
    }
  }
  return std::move(builder).Finish();
}

}  // namespace infercast
