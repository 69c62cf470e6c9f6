// Opening, sharing and lazy loading of measured tables.
#include "tables/database.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "tables/data_tree.h"
#include "tables/load_plan.h"
#include "tables/readers/recipe.h"
#include "tables/sources.h"
#include "tables/table_image.h"

namespace infercast {
namespace {

constexpr std::array<std::string_view, kNumTables> kNames = {
    "gemm",
    "compute_scale",
    "scale_matrix",
    "context_attention",
    "generation_attention",
    "encoder_attention",
    "context_mla",
    "generation_mla",
    "mla_bmm",
    "mla_context_module",
    "mla_generation_module",
    "wideep_context_mla",
    "wideep_generation_mla",
    "dsa_context_full",
    "dsa_context_skip",
    "dsa_generation_full",
    "dsa_generation_skip",
    "msa_context",
    "msa_generation",
    "dsv4_csa_context",
    "dsv4_hca_context",
    "dsv4_csa_generation",
    "dsv4_hca_generation",
    "dsv4_topk_calibration",
    "dsv4_paged_mqa_logits",
    "glm5_mqa_logits",
    "glm5_topk",
    "glm5_dsa_attn",
    "dsv32_mqa_logits",
    "dsv32_topk",
    "dsv32_dsa_attn",
    "mhc",
    "gdn_context",
    "gdn_generation",
    "kda_context",
    "kda_generation",
    "mamba2_context",
    "mamba2_generation",
    "moe",
    "moe_low_latency",
    "moe_all_to_all",
    "moe_expert_compute",
    "trtllm_all_to_all",
    "custom_all_reduce",
    "nccl",
    "oneccl",
    "mega_moe",
    "fpm_prefill",
    "fpm_decode",
};

std::string IdentityText(const DatabaseIdentity& id) {
  return fmt::format("{}\n{}\n{}\n{}\n{}{}", id.systems_root.string(), id.system,
                     ToString(id.backend), id.version, id.shared_layer ? 's' : '-',
                     id.strict_provenance ? 'p' : '-');
}

}  // namespace

std::string_view TableName(TableId id) { return kNames[static_cast<std::size_t>(id)]; }

struct TableStore::State {
  State(std::filesystem::path data_root, SourceResolver::Options options)
      : tree(std::move(data_root)), resolver(tree, std::move(options)) {}

  DataTree tree;
  SourceResolver resolver;
  std::array<std::once_flag, kNumTables> loaded;
  std::array<Slot, kNumTables> slots;

  struct Memo {
    std::once_flag built;
    std::shared_ptr<const void> value;
  };
  std::mutex memo_mutex;
  std::unordered_map<std::string, std::shared_ptr<Memo>> memos;
};

Result<std::shared_ptr<TableStore>> TableStore::Open(const DatabaseIdentity& identity) {
  // One store per identity for as long as somebody uses it.
  static std::mutex registry_mutex;
  static std::map<std::string, std::weak_ptr<TableStore>> registry;
  const std::string key = IdentityText(identity);
  if (!identity.tolerate_missing_dir) {
    const std::lock_guard lock(registry_mutex);
    const auto it = registry.find(key);
    if (it != registry.end()) {
      if (auto store = it->second.lock()) return store;
    }
  }

  IC_ASSIGN(SystemSpec system, LoadSystemSpec(identity.systems_root, identity.system));
  const std::string backend(ToString(identity.backend));
  std::shared_ptr<TableStore> store(new TableStore());
  store->identity_ = identity;
  store->state_ = std::make_shared<State>(
      identity.systems_root / system.data_dir,
      SourceResolver::Options{identity.systems_root, backend, identity.version,
                              identity.shared_layer, identity.strict_provenance, false});
  store->system_ = std::move(system);

  const DataTree& tree = store->state_->tree;
  if (!identity.tolerate_missing_dir &&
      (identity.version.empty() || tree.VersionDirs(backend, identity.version).empty())) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("perf data directory not found in either the legacy layout ({}/{}/{}) "
                            "or a family-first layout ({}/<family>/{}/{})",
                            tree.root().string(), backend, identity.version, tree.root().string(),
                            backend, identity.version));
  }
  if (identity.strict_provenance) {
    // Violations must surface now, not at the first query that happens to touch a table.
    for (std::size_t i = 0; i < kNumTables; ++i) {
      for (const std::string& basename : RecipeOf(static_cast<TableId>(i)).basenames) {
        const auto report = store->state_->resolver.Resolve(basename + ".parquet");
        if (!report) return std::unexpected(report.error());
      }
    }
  }
  if (identity.tolerate_missing_dir) return store;
  const std::lock_guard lock(registry_mutex);
  std::weak_ptr<TableStore>& slot = registry[key];
  if (auto other = slot.lock()) return other;  // another thread was faster
  slot = store;
  return store;
}

const TableStore::Slot& TableStore::Get(TableId id) const {
  const auto index = static_cast<std::size_t>(id);
  State& state = *state_;
  std::call_once(state.loaded[index], [&] {
    Slot& slot = state.slots[index];
    auto loaded = LoadTable(id, state.resolver, LoadContext{system_, identity_});
    if (loaded) {
      slot.table = *std::move(loaded);
    } else {
      slot.error = std::move(loaded.error().error);
      slot.corrupt = loaded.error().corrupt;
    }
  });
  return state.slots[index];
}

Result<std::vector<TableSource>> TableStore::Sources(std::string_view basename) const {
  auto report = state_->resolver.Resolve(basename);
  if (!report) return std::unexpected(report.error());
  return std::move(report->sources);
}

std::shared_ptr<const void> TableStore::MemoAny(
    const std::string& key, const std::function<std::shared_ptr<const void>()>& build) const {
  std::shared_ptr<State::Memo> memo;
  {
    const std::lock_guard lock(state_->memo_mutex);
    std::shared_ptr<State::Memo>& slot = state_->memos[key];
    if (slot == nullptr) slot = std::make_shared<State::Memo>();
    memo = slot;
  }
  // The lock is not held while building: a builder may ask for other memos.
  std::call_once(memo->built, [&] { memo->value = build(); });
  return memo->value;
}

Result<const Table*> Database::Get(TableId id) const {
  const TableStore::Slot& slot = store_->Get(id);
  if (slot.table != nullptr) return slot.table.get();
  const bool native_damage = slot.corrupt && behaviour_ == Behaviour::kNative;
  return Fail(native_damage ? ErrorKind::kCorruptData : ErrorKind::kPerfDatabase,
              slot.error.message);
}

}  // namespace infercast
