// The performance database of one (system, backend, version): the system's figures and every
// measured table, opened lazily, shared between engines, and seen through a mode and a policy.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "hardware/system_spec.h"
#include "tables/table.h"

namespace infercast {

// Every table kind. The key levels of each, outermost first (text levels in quotes, grid axes after
// the bar), are:
enum class TableId : std::uint8_t {
  kGemm,              // "gemm_dtype" | m, n, k                       (raised to speed of light)
  kComputeScale,      // "quant_dtype" | m, k
  kScaleMatrix,       // "quant_dtype" | m, k
  kContextAttention,  // "lane", "attn_dtype", "kv_cache_dtype", kv, head_dim, window | num_heads,
                      // seq, batch
  kGenerationAttention,  // "lane", "kv_cache_dtype", kv, head_dim, window | num_heads, batch, seq
                         // (raised)
  kEncoderAttention,     // "attn_dtype", head_dim | num_heads, seq, batch
  kContextMla,           // "mla_dtype", "kv_cache_dtype" | num_heads, seq, batch
  kGenerationMla,        // "kv_cache_dtype" | num_heads, batch, seq
  kMlaBmm,               // "bmm_dtype", "op_name", num_heads | num_tokens
  kMlaContextModule,  // "mla_dtype", "kv_cache_dtype", "gemm_type", native_heads | num_heads, seq,
                      // batch
  kMlaGenerationModule,  // "kv_cache_dtype", "gemm_type", native_heads | num_heads, batch, seq
  kWideEpContextMla,     // "kernel_source", "mla_dtype", "kv_cache_dtype" | num_heads, seq, batch
  kWideEpGenerationMla,  // "kernel_source", "kv_cache_dtype" | num_heads, batch, seq
  kDsaContextFull,       // "mla_dtype", "kv_cache_dtype", "gemm_type", "architecture", "bucket" |
                         // num_heads, prefix, seq, batch
  kDsaContextSkip,       //   the same levels
  kDsaGenerationFull,    // "mla_dtype", "kv_cache_dtype", "gemm_type", "architecture", "bucket" |
                         // num_heads, batch, seq
  kDsaGenerationSkip,    //   the same levels
  kMsaContext,  // "mla_dtype", "kv_cache_dtype", "gemm_type", "architecture", "bucket" | num_heads,
                // prefix, seq, batch
  kMsaGeneration,   // "kv_cache_dtype", "gemm_type", "architecture", "bucket" | num_heads, batch,
                    // seq
  kDsv4CsaContext,  // "mla_dtype", "kv_cache_dtype", "gemm_type", native_heads, local_heads |
                    // prefix, seq, batch
  kDsv4HcaContext,  //   the same levels
  kDsv4CsaGeneration,    // "kv_cache_dtype", "gemm_type", native_heads, local_heads | batch, seq
  kDsv4HcaGeneration,    //   the same levels
  kDsv4TopkCalibration,  // num_heads, "score_mode" | step, seq, batch        (latency only; empty
                         // table when nothing usable)
  kDsv4PagedMqaLogits,   // num_heads, tp_size | step, seq, batch              (latency only; empty
                         // table when absent)
  kGlm5MqaLogits,        // num_heads | batch, seq, step                       (latency only)
  kGlm5Topk,             // num_heads, flat(0/1) | batch, seq, step            (latency only)
  kGlm5DsaAttn,          // num_heads | batch, seq, step                       (latency only)
  kDsv32MqaLogits,       //   as the glm5 ones
  kDsv32Topk,
  kDsv32DsaAttn,
  kMhc,         // "op_name", hc_mult, hidden_size | num_tokens
  kGdnContext,  // "kernel_source", "phase", d_model, d_conv, num_k_heads, head_k_dim, num_v_heads,
                // head_v_dim | batch, seq
  kGdnGeneration,     //   the same discrete levels | batch
  kKdaContext,        //   as GDN (phases context and verify) | batch, seq
  kKdaGeneration,     //   as GDN | batch
  kMamba2Context,     // "kernel_source", "phase", d_model, d_state, d_conv, nheads, head_dim,
                      // n_groups, chunk_size | batch, seq
  kMamba2Generation,  //   the same discrete levels | batch
  kMoe,  // "moe_dtype", "distribution", topk, num_experts, hidden_size, inter_size, moe_tp, moe_ep
         // | num_tokens
  kMoeLowLatency,  //   the same levels (the min-latency kernel)
  kMoeAllToAll,    // "comm_backend", "phase", "comm_dtype", ep_size, node_num, hidden_size, topk,
                   // num_experts, sms | num_tokens
  kMoeExpertCompute,  // "kernel_source", "moe_dtype", "distribution", "inference_phase", topk,
                      // num_experts, num_slots, hidden_size, inter_size, moe_tp, moe_ep |
                      // num_tokens
  kTrtllmAllToAll,    // "kernel_source", "op_name", "moe_dtype", num_nodes, hidden_size, topk,
                      // num_experts, moe_ep | num_tokens
  kCustomAllReduce,   // "dtype" (always half), num_gpus | message_size
  kNccl,              // "nccl_dtype", "op_name", num_gpus | message_size
  kOneccl,            //   the same levels
  kMegaMoe,           // "phase", "kernel_source", "kernel_dtype", "moe_dtype", "pre_dispatch",
             // "source_policy", "distribution", topk, num_experts, num_fused_shared_experts,
             // hidden_size, inter_size, moe_tp, moe_ep | num_tokens
  kFpmPrefill,  // "model_path", "identity" (15 values joined by '|') | batch, kv, prefill_tokens
                // (latency only)
  kFpmDecode,   // "model_path", "identity" | batch, kv (latency only, healed)
  kCount,
};
constexpr std::size_t kNumTables = static_cast<std::size_t>(TableId::kCount);
std::string_view TableName(TableId id);

// Which kinds of borrowed utilisation an estimate may use.
struct TransferPolicy {
  bool xshape = true, xquant = true, xprofile = true, xop = true;
  bool operator==(const TransferPolicy&) const = default;
};

struct DatabaseIdentity {
  std::filesystem::path systems_root;
  std::string system;
  Backend backend = Backend::kTrtllm;
  std::string version;       // literal directory version, never an alias
  bool shared_layer = true;  // rows of other versions and backends may fill gaps
  bool strict_provenance = false;
  bool tolerate_missing_dir = false;
  bool operator==(const DatabaseIdentity&) const = default;
};

// The loaded half: immutable facts of one identity. Thread-safe; tables load on first use.
class TableStore {
 public:
  // Opens (or shares) the store of an identity. Reads the system yaml and resolves sources; reads
  // no Parquet. kPerfDatabase when the version's data directory is missing and not tolerated.
  static Result<std::shared_ptr<TableStore>> Open(const DatabaseIdentity& identity);

  const DatabaseIdentity& identity() const { return identity_; }
  const SystemSpec& system() const { return system_; }

  // The table, or why it cannot be used: kPerfDatabase when no source file or row exists,
  // kCorruptData/kParquet-class problems are reported as `corrupt` below. Loaded once.
  struct Slot {
    std::unique_ptr<const Table> table;
    Error error;           // set when table is null
    bool corrupt = false;  // a file exists but could not be decoded (error tells)
  };
  const Slot& Get(TableId id) const;
  // Sources consulted for a basename such as "gemm_perf.parquet", in priority order.
  Result<std::vector<TableSource>> Sources(std::string_view basename) const;

  // A derived object (utilisation grid, site index ...) built once per store under a key that names
  // everything it depends on. Thread-safe. The builder must not fail; store a Result if it may.
  template <typename T>
  std::shared_ptr<const T> Memo(const std::string& key,
                                const std::function<std::shared_ptr<const T>()>& build) const {
    return std::static_pointer_cast<const T>(
        MemoAny(key, [&]() -> std::shared_ptr<const void> { return build(); }));
  }

 private:
  TableStore() = default;
  std::shared_ptr<const void> MemoAny(
      const std::string& key, const std::function<std::shared_ptr<const void>()>& build) const;

  DatabaseIdentity identity_;
  SystemSpec system_;
  struct State;
  std::shared_ptr<State> state_;
};

// A view: store + mode + policy. Copy freely; views share the store.
class Database {
 public:
  Database(std::shared_ptr<const TableStore> store, DatabaseMode mode, TransferPolicy policy,
           Behaviour behaviour)
      : store_(std::move(store)), mode_(mode), policy_(policy), behaviour_(behaviour) {}

  const TableStore& store() const { return *store_; }
  const std::shared_ptr<const TableStore>& shared_store() const { return store_; }
  const SystemSpec& system() const { return store_->system(); }
  Backend backend() const { return store_->identity().backend; }
  DatabaseMode mode() const { return mode_; }
  bool IsSol() const { return mode_ == DatabaseMode::kSol || mode_ == DatabaseMode::kSolFull; }
  const TransferPolicy& policy() const { return policy_; }
  Behaviour behaviour() const { return behaviour_; }
  Database WithMode(DatabaseMode mode) const { return {store_, mode, policy_, behaviour_}; }

  // The table or its error as a query reports it. In reference behaviour every load failure is
  // kPerfDatabase (so estimates may replace it); in native behaviour a damaged file is
  // kCorruptData and stays one.
  Result<const Table*> Get(TableId id) const;

 private:
  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  TransferPolicy policy_;
  Behaviour behaviour_;
};

}  // namespace infercast
