// Reads number formats and layouts off the key levels of finished tables.
#include "tables/measured_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/near_names.h"
#include "tables/introspection.h"

namespace infercast {
namespace {

using Names = std::vector<std::string>;

// The table, null when it was not measured, or the error of a damaged one.
Result<const Table*> Find(const TableStore& store, TableId id) {
  const TableStore::Slot& slot = store.Get(id);
  if (slot.table != nullptr) return slot.table.get();
  if (slot.corrupt) return std::unexpected(slot.error);
  return nullptr;
}

void AddNew(Names& names, const Names& more) {
  for (const std::string& name : more) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

// One level's texts by first appearance, table after table.
Result<Names> Listed(const TableStore& store, std::initializer_list<TableId> ids,
                     std::uint32_t level) {
  Names names;
  for (const TableId id : ids) {
    IC_ASSIGN(const Table* table, Find(store, id));
    if (table != nullptr) AddNew(names, TextsByFirstAppearance(*table, level));
  }
  return names;
}

Result<Names> Sorted(Result<Names> names) {
  if (names) std::sort(names->begin(), names->end());
  return names;
}

// A scaled product needs its scales measured as well.
Result<Names> GemmModes(const TableStore& store) {
  IC_ASSIGN(Names modes, Listed(store, {TableId::kGemm}, 0));
  std::erase(modes, "fp8_static");
  bool all_fp8 = std::find(modes.begin(), modes.end(), "fp8") != modes.end();
  for (const TableId id : {TableId::kComputeScale, TableId::kScaleMatrix}) {
    IC_ASSIGN(const Names scales, Listed(store, {id}, 0));
    all_fp8 = all_fp8 && std::find(scales.begin(), scales.end(), "fp8") != scales.end();
  }
  if (all_fp8) modes.emplace_back("fp8_static");
  std::sort(modes.begin(), modes.end());
  return modes;
}

// Formats of the expert kernels of one phase, from the files that have no table of their own.
Result<Names> WideEpModes(const TableStore& store, std::string_view phase) {
  IC_ASSIGN(const Table* table, Find(store, TableId::kMoeExpertCompute));
  Names names;
  if (table == nullptr) return names;
  std::vector<std::pair<std::uint32_t, std::string>> first;
  VisitRows(*table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    if (*cells[0].text != "deepep_moe" || *cells[3].text != phase) return true;
    const auto it = std::find_if(first.begin(), first.end(),
                                 [&](const auto& f) { return f.second == *cells[1].text; });
    if (it == first.end()) {
      first.emplace_back(table->order[leaf], *cells[1].text);
    } else {
      it->first = std::min(it->first, table->order[leaf]);
    }
    return true;
  });
  std::sort(first.begin(), first.end());
  for (auto& [order, name] : first) names.push_back(std::move(name));
  return names;
}

struct SupportRule {
  std::string_view key;
  bool sglang_only;
  Result<Names> (*list)(const TableStore&);
};

const std::array<SupportRule, 18> kRules = {{
    {"gemm", false, GemmModes},
    {"context_attention", false,
     [](const TableStore& s) { return Listed(s, {TableId::kContextAttention}, 1); }},
    {"generation_attention", false,
     [](const TableStore& s) { return Listed(s, {TableId::kGenerationAttention}, 1); }},
    {"context_mla", false,
     [](const TableStore& s) {
       return Sorted(Listed(s, {TableId::kContextMla, TableId::kMlaContextModule}, 0));
     }},
    {"context_mla_granular", false,
     [](const TableStore& s) { return Listed(s, {TableId::kContextMla}, 0); }},
    {"generation_mla", false,
     [](const TableStore& s) {
       return Sorted(Listed(s, {TableId::kGenerationMla, TableId::kMlaGenerationModule}, 0));
     }},
    {"dsa_context_module", false,
     [](const TableStore& s) { return Listed(s, {TableId::kDsaContextFull}, 0); }},
    {"dsa_generation_module", false,
     [](const TableStore& s) { return Listed(s, {TableId::kDsaGenerationFull}, 1); }},
    {"deepseek_v4_context_module", false,
     [](const TableStore& s) {
       return Listed(s, {TableId::kDsv4CsaContext, TableId::kDsv4HcaContext}, 0);
     }},
    {"deepseek_v4_generation_module", false,
     [](const TableStore& s) {
       return Listed(s, {TableId::kDsv4CsaGeneration, TableId::kDsv4HcaGeneration}, 0);
     }},
    {"mla_bmm", false, [](const TableStore& s) { return Listed(s, {TableId::kMlaBmm}, 0); }},
    {"nccl", false,
     [](const TableStore& s) {
       auto names = Listed(s, {TableId::kNccl}, 0);
       const bool vllm = s.identity().backend == Backend::kVllm;
       return names && names->empty() && vllm ? Listed(s, {TableId::kOneccl}, 0) : names;
     }},
    {"moe", false, [](const TableStore& s) { return Listed(s, {TableId::kMoe}, 0); }},
    {"wideep_context_moe", true, [](const TableStore& s) { return WideEpModes(s, "context"); }},
    {"wideep_generation_moe", true,
     [](const TableStore& s) { return WideEpModes(s, "generation"); }},
    {"wideep_context_mla", true,
     [](const TableStore& s) { return Sorted(Listed(s, {TableId::kWideEpContextMla}, 1)); }},
    {"wideep_generation_mla", true,
     [](const TableStore& s) { return Sorted(Listed(s, {TableId::kWideEpGenerationMla}, 1)); }},
    {"dsv4_megamoe_module", true,
     [](const TableStore& s) { return Sorted(Listed(s, {TableId::kMegaMoe}, 3)); }},
}};

// Adds the attention formats of `level` whose rows carry this KV format on `kv_level`.
Status AddJoint(const TableStore& store, TableId id, std::uint32_t level, std::uint32_t kv_level,
                std::string_view kv, std::set<std::string>& names) {
  IC_ASSIGN(const Table* table, Find(store, id));
  if (table == nullptr) return {};
  VisitRows(*table, [&](std::span<const RowCell> cells, std::uint32_t) {
    if (*cells[kv_level].text == kv) names.insert(*cells[level].text);
    return true;
  });
  return {};
}

// The children of `from` under a path of exact keys, or an empty view.
GridView Descend(const GridView& from, std::initializer_list<Table::Key> keys) {
  const auto view = from.table->Slice(from, keys);
  return view ? *view : GridView{from.table, from.level, from.begin, from.begin};
}

}  // namespace

std::vector<std::string> SupportKeys(Backend backend) {
  Names keys;
  for (const SupportRule& rule : kRules) {
    if (!rule.sglang_only || backend == Backend::kSglang) keys.emplace_back(rule.key);
  }
  return keys;
}

Result<Names> SupportedQuantModes(const TableStore& store, std::string_view key) {
  for (const SupportRule& rule : kRules) {
    if (rule.key == key && (!rule.sglang_only || store.identity().backend == Backend::kSglang)) {
      return rule.list(store);
    }
  }
  const Names keys = SupportKeys(store.identity().backend);
  return Fail(ErrorKind::kUnknownName, fmt::format("no support list for '{}'{}; known: {}", key,
                                                   DidYouMean(key, keys), JoinNames(keys)));
}

Result<Names> ContextFmhaModes(const TableStore& store, std::string_view key,
                               std::optional<std::string_view> kv) {
  IC_ASSIGN(Names flat, SupportedQuantModes(store, key));
  if (flat.empty() || !kv) return flat;
  std::set<std::string> names;
  if (key == "context_attention") {
    IC_RETURN_IF_ERROR(AddJoint(store, TableId::kContextAttention, 1, 2, *kv, names));
  } else if (key == "context_mla" || key == "context_mla_granular") {
    IC_RETURN_IF_ERROR(AddJoint(store, TableId::kContextMla, 0, 1, *kv, names));
    if (key == "context_mla") {
      IC_RETURN_IF_ERROR(AddJoint(store, TableId::kMlaContextModule, 0, 1, *kv, names));
    }
  } else if (key == "dsa_context_module") {
    IC_RETURN_IF_ERROR(AddJoint(store, TableId::kDsaContextFull, 0, 1, *kv, names));
  } else if (key == "deepseek_v4_context_module") {
    IC_RETURN_IF_ERROR(AddJoint(store, TableId::kDsv4CsaContext, 0, 1, *kv, names));
    IC_RETURN_IF_ERROR(AddJoint(store, TableId::kDsv4HcaContext, 0, 1, *kv, names));
  } else {
    return flat;
  }
  return Names(names.begin(), names.end());
}

std::map<std::string, std::set<ExchangeLayout>> MoeAllToAllCoverage(const TableStore& store,
                                                                    std::uint32_t hidden_size,
                                                                    std::uint32_t topk,
                                                                    std::uint32_t num_experts,
                                                                    const CommDtypeOf& dtype_of) {
  std::map<std::string, std::set<ExchangeLayout>> coverage;
  const Table* table = store.Get(TableId::kMoeAllToAll).table.get();
  if (table == nullptr) return coverage;
  const auto layouts = [&](const GridView& backend, const std::string& name,
                           std::string_view phase) {
    std::set<ExchangeLayout> found;
    std::optional<std::string> exact;
    if (dtype_of) {
      exact = dtype_of(name, phase);
      if (!exact) return found;
    }
    const GridView dtypes = Descend(backend, {phase});
    for (std::uint32_t d = dtypes.begin; d < dtypes.end; ++d) {
      if (exact && table->TextAt(2, d) != *exact) continue;
      const GridView eps = dtypes.Child(d);
      for (std::uint32_t e = eps.begin; e < eps.end; ++e) {
        const GridView nodes = eps.Child(e);
        for (std::uint32_t n = nodes.begin; n < nodes.end; ++n) {
          const auto sms = table->Slice(nodes.Child(n), {hidden_size, topk, num_experts});
          if (!sms || sms->empty()) continue;
          found.emplace(static_cast<std::uint32_t>(table->levels[3].keys[e]),
                        static_cast<std::uint32_t>(table->levels[4].keys[n]));
        }
      }
    }
    return found;
  };
  const GridView backends = table->Root();
  for (std::uint32_t b = backends.begin; b < backends.end; ++b) {
    const std::string& name = table->TextAt(0, b);
    const auto dispatch = layouts(backends.Child(b), name, "dispatch");
    const auto combine = layouts(backends.Child(b), name, "combine");
    std::set<ExchangeLayout> both;
    std::set_intersection(dispatch.begin(), dispatch.end(), combine.begin(), combine.end(),
                          std::inserter(both, both.end()));
    if (!both.empty()) coverage.emplace(name, std::move(both));
  }
  return coverage;
}

std::set<std::uint32_t> MoeExpertComputeCoverage(const TableStore& store, std::uint32_t hidden_size,
                                                 std::uint32_t inter_size, std::uint32_t topk,
                                                 std::uint32_t num_experts, std::string_view quant,
                                                 std::string_view phase) {
  std::set<std::uint32_t> sizes;
  const Table* table = store.Get(TableId::kMoeExpertCompute).table.get();
  if (table == nullptr) return sizes;
  VisitRows(*table, [&](std::span<const RowCell> c, std::uint32_t) {
    if (*c[1].text == quant && *c[3].text == phase && c[4].number == topk &&
        c[5].number == num_experts && c[7].number == hidden_size && c[8].number == inter_size &&
        c[9].number == 1) {
      sizes.insert(static_cast<std::uint32_t>(c[10].number));
    }
    return true;
  });
  return sizes;
}

std::set<std::uint32_t> MoeLayerCoverage(const TableStore& store, std::uint32_t hidden_size,
                                         std::uint32_t inter_size, std::uint32_t topk,
                                         std::uint32_t num_experts, std::string_view quant) {
  std::set<std::uint32_t> sizes;
  const Table* table = store.Get(TableId::kMoe).table.get();
  if (table == nullptr) return sizes;
  const auto distributions = table->Slice({quant});
  if (!distributions) return sizes;
  for (std::uint32_t d = distributions->begin; d < distributions->end; ++d) {
    const auto eps =
        table->Slice(distributions->Child(d), {topk, num_experts, hidden_size, inter_size, 1});
    if (!eps) continue;
    for (const double ep : eps->keys()) sizes.insert(static_cast<std::uint32_t>(ep));
  }
  return sizes;
}

}  // namespace infercast
