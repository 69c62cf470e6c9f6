// Plans and runs the load of one table.
#include "tables/load_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "tables/pep440.h"
#include "tables/table_cache.h"
#include "tables/table_image.h"

namespace infercast {
namespace {

// Regroups the sources of several files by (channel, version): a tier outranks the next as a whole.
// Earlier versions count newest first, other channels by version text.
std::vector<PlannedSource> ByTiers(std::vector<PlannedSource> sources) {
  struct Tier {
    SourceChannel channel;
    std::string version;
    bool operator==(const Tier&) const = default;
  };
  std::vector<Tier> tiers;
  for (const PlannedSource& planned : sources) {
    const Tier tier{planned.source.channel, planned.source.version};
    if (std::find(tiers.begin(), tiers.end(), tier) == tiers.end()) tiers.push_back(tier);
  }
  std::stable_sort(tiers.begin(), tiers.end(), [](const Tier& a, const Tier& b) {
    if (a.channel != b.channel) return a.channel < b.channel;
    if (a.channel != SourceChannel::kFallback) return a.version < b.version;
    const auto x = Pep440::Parse(a.version);
    const auto y = Pep440::Parse(b.version);
    if (x.has_value() != y.has_value()) return x.has_value();
    if (!x) return a.version > b.version;
    return *x > *y;
  });
  for (PlannedSource& planned : sources) {
    const Tier tier{planned.source.channel, planned.source.version};
    planned.rank =
        static_cast<std::uint64_t>(std::find(tiers.begin(), tiers.end(), tier) - tiers.begin());
  }
  std::stable_sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.basename) < std::tie(b.rank, b.basename);
  });
  return sources;
}

bool SourcesFit(const Table& table, std::size_t num_sources) {
  return std::all_of(table.source.begin(), table.source.end(),
                     [&](std::uint16_t source) { return source < num_sources; });
}

}  // namespace

Result<std::vector<PlannedSource>> PlanSources(const TableRecipe& recipe,
                                               const SourceResolver& resolver,
                                               const LoadContext& context) {
  std::vector<PlannedSource> plan;
  if (recipe.sources == SourceRule::kNccl || recipe.sources == SourceRule::kOneccl) {
    const bool nccl = recipe.sources == SourceRule::kNccl;
    const auto& version = nccl ? context.system.nccl_version : context.system.oneccl_version;
    const std::string_view library = nccl ? "nccl" : "oneccl";
    if (!version) {
      return Fail(ErrorKind::kPerfDatabase,
                  fmt::format("{} is not configured for system '{}' (no misc.{}_version)", library,
                              context.system.name, library));
    }
    plan.push_back(
        {resolver.CollectiveSource(library, *version, recipe.basenames[0] + ".parquet"), 0, 0});
    return plan;
  }
  if (recipe.sources == SourceRule::kFlat) {
    plan.push_back({resolver.FlatSource(recipe.basenames[0] + ".parquet"), 0, 0});
    return plan;
  }
  for (std::size_t i = 0; i < recipe.basenames.size(); ++i) {
    IC_ASSIGN(const SourceReport report, resolver.Resolve(recipe.basenames[i] + ".parquet"));
    for (const TableSource& source : report.sources) {
      plan.push_back({source, i, 0});
      if (recipe.sources == SourceRule::kFirstOnly) break;
    }
  }
  if (recipe.sources == SourceRule::kTiers) plan = ByTiers(std::move(plan));
  return plan;
}

std::expected<std::unique_ptr<const Table>, LoadFailure> LoadTable(TableId id,
                                                                   const SourceResolver& resolver,
                                                                   const LoadContext& context) {
  const TableRecipe& recipe = RecipeOf(id);
  if (recipe.basenames.empty()) {
    return std::unexpected(LoadFailure{
        Error{ErrorKind::kPerfDatabase, fmt::format("no reader for table {}", TableName(id))},
        false});
  }
  auto plan = PlanSources(recipe, resolver, context);
  if (!plan) return std::unexpected(LoadFailure{std::move(plan).error(), false});

  std::unique_ptr<Table> table;
  std::optional<ContentKey> key;
  const bool any = std::any_of(plan->begin(), plan->end(),
                               [](const PlannedSource& planned) { return planned.source.exists; });
  if (recipe.cacheable && any) {
    // A file that cannot be hashed cannot be read either; the load below says so.
    if (const auto found = ContentKeyOf(id, recipe, *plan, context)) key = *found;
  }
  if (key) {
    table = LoadCachedTable(id, context.identity, *key);
    if (table != nullptr && !SourcesFit(*table, plan->size())) table = nullptr;
  }
  if (table == nullptr) {
    auto parts = LoadRows(recipe, *plan, context);
    if (!parts) return std::unexpected(std::move(parts).error());
    const auto image = std::make_shared<const std::vector<std::uint64_t>>(
        EncodeTableImage(*parts, key.value_or(ContentKey{})));
    if (key) StoreCachedTable(id, context.identity, *image);
    auto decoded =
        DecodeTableImage(std::as_bytes(std::span(*image)), key.value_or(ContentKey{}), image);
    if (!decoded) return std::unexpected(LoadFailure{std::move(decoded).error(), true});
    table = *std::move(decoded);
  }
  // That nothing was found is worth remembering too, so it comes from the cache like any table.
  if (table->num_leaves() == 0 && !recipe.empty_is_fine) {
    return std::unexpected(LoadFailure{
        Error{ErrorKind::kPerfDatabase,
              fmt::format("no {} rows loaded from {} source(s) (first: {})", recipe.basenames[0],
                          plan->size(), plan->empty() ? "none" : plan->front().source.path)},
        false});
  }
  table->name = recipe.basenames[0];
  for (PlannedSource& planned : *plan) table->sources.push_back(std::move(planned.source));
  return std::unique_ptr<const Table>(std::move(table));
}

}  // namespace infercast
