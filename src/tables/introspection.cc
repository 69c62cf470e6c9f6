// Walks finished tables to tell people what they hold.
#include "tables/introspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/near_names.h"
#include "tables/readers/recipe.h"

namespace infercast {
namespace {

LevelSummary SummarizeLevel(const TableLevel& level, bool is_axis) {
  LevelSummary summary{level.name, level.is_text, is_axis, {}, {}};
  if (level.is_text) {
    summary.texts = level.names;
  } else {
    summary.values.assign(level.keys.begin(), level.keys.end());
    std::sort(summary.values.begin(), summary.values.end());
    summary.values.erase(std::unique(summary.values.begin(), summary.values.end()),
                         summary.values.end());
  }
  return summary;
}

}  // namespace

int NumAxes(TableId id) {
  switch (id) {
    case TableId::kGemm:
    case TableId::kContextAttention:
    case TableId::kGenerationAttention:
    case TableId::kEncoderAttention:
    case TableId::kContextMla:
    case TableId::kGenerationMla:
    case TableId::kMlaContextModule:
    case TableId::kMlaGenerationModule:
    case TableId::kWideEpContextMla:
    case TableId::kWideEpGenerationMla:
    case TableId::kDsaGenerationFull:
    case TableId::kDsaGenerationSkip:
    case TableId::kMsaGeneration:
    case TableId::kDsv4CsaContext:
    case TableId::kDsv4HcaContext:
    case TableId::kDsv4TopkCalibration:
    case TableId::kDsv4PagedMqaLogits:
    case TableId::kGlm5MqaLogits:
    case TableId::kGlm5Topk:
    case TableId::kGlm5DsaAttn:
    case TableId::kDsv32MqaLogits:
    case TableId::kDsv32Topk:
    case TableId::kDsv32DsaAttn:
    case TableId::kFpmPrefill:
      return 3;
    case TableId::kDsaContextFull:
    case TableId::kDsaContextSkip:
    case TableId::kMsaContext:
      return 4;
    case TableId::kComputeScale:
    case TableId::kScaleMatrix:
    case TableId::kDsv4CsaGeneration:
    case TableId::kDsv4HcaGeneration:
    case TableId::kGdnContext:
    case TableId::kKdaContext:
    case TableId::kMamba2Context:
    case TableId::kFpmDecode:
      return 2;
    default:
      return 1;
  }
}

std::vector<std::string> TextsByFirstAppearance(const Table& table, std::uint32_t level) {
  const TableLevel& at = table.levels[level];
  std::vector<std::pair<std::uint32_t, std::size_t>> first;  // order of first row, code
  for (std::size_t code = 0; code < at.names.size(); ++code) first.emplace_back(UINT32_MAX, code);
  const GridView all{&table, level, 0, static_cast<std::uint32_t>(at.keys.size())};
  for (std::uint32_t node = 0; node < all.end; ++node) {
    auto& order = first[static_cast<std::size_t>(at.keys[node])].first;
    order = std::min(order, table.FirstOrder(all, node));
  }
  std::sort(first.begin(), first.end());
  std::vector<std::string> texts;
  for (const auto& [order, code] : first) texts.push_back(at.names[code]);
  return texts;
}

TableSummary Summarize(const TableStore& store, TableId id) {
  TableSummary summary;
  summary.id = id;
  summary.name = TableName(id);
  summary.file = RecipeOf(id).basenames.front();
  const TableStore::Slot& slot = store.Get(id);
  if (slot.table == nullptr) {
    summary.corrupt = slot.corrupt;
    summary.problem = slot.error.message;
    return summary;
  }
  const Table& table = *slot.table;
  summary.points = table.num_leaves();
  const std::size_t discrete = table.levels.size() - static_cast<std::size_t>(NumAxes(id));
  for (std::size_t i = 0; i < table.levels.size(); ++i) {
    const TableLevel& level = table.levels[i];
    summary.levels.push_back(SummarizeLevel(level, i >= discrete));
    if (summary.quant_modes.empty() && level.is_text && level.name.ends_with("dtype")) {
      summary.quant_modes = TextsByFirstAppearance(table, static_cast<std::uint32_t>(i));
    }
  }
  summary.has_power =
      std::any_of(table.power.begin(), table.power.end(), [](double power) { return power != 0; });
  std::vector<std::size_t> points(table.sources.size());
  for (const std::uint16_t source : table.source) ++points[source];
  for (std::size_t i = 0; i < table.sources.size(); ++i) {
    if (table.sources[i].exists) summary.sources.push_back({table.sources[i], points[i]});
  }
  return summary;
}

std::vector<TableSummary> ListTables(const TableStore& store) {
  std::vector<TableSummary> summaries;
  for (std::size_t i = 0; i < kNumTables; ++i) {
    TableSummary summary = Summarize(store, static_cast<TableId>(i));
    if (summary.points > 0 || summary.corrupt) summaries.push_back(std::move(summary));
  }
  return summaries;
}

Result<TableId> ParseTableName(std::string_view name) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kNumTables; ++i) {
    const auto id = static_cast<TableId>(i);
    if (TableName(id) == wanted) return id;
    names.emplace_back(TableName(id));
  }
  return Fail(ErrorKind::kUnknownName, fmt::format("unknown table '{}'{}; known: {}", name,
                                                   DidYouMean(wanted, names), JoinNames(names)));
}

void VisitRows(const Table& table,
               const std::function<bool(std::span<const RowCell>, std::uint32_t)>& visit) {
  const std::size_t width = table.levels.size();
  if (width == 0 || table.num_leaves() == 0) return;
  std::vector<RowCell> cells(width);
  std::vector<std::uint32_t> node(width, 0);  // current node of each level
  const auto fill = [&](std::size_t level) {
    const TableLevel& at = table.levels[level];
    cells[level].number = at.keys[node[level]];
    cells[level].text =
        at.is_text ? &at.names[static_cast<std::size_t>(at.keys[node[level]])] : nullptr;
  };
  for (std::size_t level = 0; level < width; ++level) fill(level);
  const auto leaves = static_cast<std::uint32_t>(table.num_leaves());
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    // Step outer levels whose children are used up.
    node[width - 1] = leaf;
    fill(width - 1);
    for (std::size_t level = width - 1; level-- > 0;) {
      if (node[level + 1] < table.levels[level].child_begin[node[level] + 1]) break;
      ++node[level];
      fill(level);
    }
    if (!visit(cells, leaf)) return;
  }
}

}  // namespace infercast
