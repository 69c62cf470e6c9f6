// EngineSpec: a compiled model as data: its identity and its two operator lists.
//
// Travels as JSON (for people) and as a positional little-endian binary form (for storage). The
// encodings are in spec_json.h and spec_binary.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/modes.h"
#include "operators/operator.h"

namespace infercast {

inline constexpr std::uint32_t kEngineSpecSchemaVersion = 15;
inline constexpr std::uint32_t kEngineConfigSchemaVersion = 1;

// Identity of an engine. Only nextn, the database identity, mode and policy influence numbers.
// Members stand in serialisation order.
struct EngineConfig {
  std::uint32_t schema_version = kEngineConfigSchemaVersion;
  std::string model_name;
  std::string system_name;
  std::optional<std::string> systems_path;
  std::string backend;
  std::optional<std::string> backend_version;
  std::optional<std::string> forward_model;
  std::optional<std::uint32_t> kv_block_size;
  std::uint32_t tp_size = 1;
  std::uint32_t pp_size = 1;
  std::optional<std::uint32_t> attention_dp_size;
  std::optional<std::uint32_t> moe_tp_size;
  std::optional<std::uint32_t> moe_ep_size;
  std::optional<std::uint32_t> cp_size;
  std::optional<DataType> weight_dtype;
  std::optional<DataType> moe_dtype;
  std::optional<DataType> activation_dtype;
  std::optional<DataType> kv_cache_dtype;
  std::optional<std::uint32_t> nextn;
  std::optional<bool> enable_shared_layer;
  bool strict_provenance = false;
  DatabaseMode database_mode = DatabaseMode::kSilicon;
  bool tolerate_dirless_version = false;
  std::optional<std::vector<std::string>> transfer_policy;
  std::map<std::string, std::string> extra;

  bool operator==(const EngineConfig&) const = default;
};

struct EngineSpec {
  std::uint32_t schema_version = kEngineSpecSchemaVersion;
  EngineConfig engine;
  std::vector<Operator> context_ops;
  std::vector<Operator> generation_ops;

  bool operator==(const EngineSpec&) const = default;
};

}  // namespace infercast
