// EngineSpec: a compiled model as data: its identity and its two operator lists.
//
// Travels as JSON (for people) and as a positional little-endian binary form (for storage). The
// encodings are in spec_json.h and spec_binary.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/modes.h"
#include "operators/fields.h"
#include "operators/operator.h"

namespace infercast {

inline constexpr std::uint32_t kEngineSpecSchemaVersion = 15;
inline constexpr std::uint32_t kEngineConfigSchemaVersion = 1;
// Composite operators may nest this deep in either encoding; deeper input is refused.
inline constexpr int kMaxOperatorNesting = 64;

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
  static constexpr auto Fields() {
    return std::tuple{
        Required("schema_version", &EngineConfig::schema_version),
        Required("model_name", &EngineConfig::model_name),
        Required("system_name", &EngineConfig::system_name),
        Defaulted("systems_path", &EngineConfig::systems_path),
        Required("backend", &EngineConfig::backend),
        Defaulted("backend_version", &EngineConfig::backend_version),
        Defaulted("forward_model", &EngineConfig::forward_model),
        Defaulted("kv_block_size", &EngineConfig::kv_block_size),
        Required("tp_size", &EngineConfig::tp_size),
        Required("pp_size", &EngineConfig::pp_size),
        Defaulted("attention_dp_size", &EngineConfig::attention_dp_size),
        Defaulted("moe_tp_size", &EngineConfig::moe_tp_size),
        Defaulted("moe_ep_size", &EngineConfig::moe_ep_size),
        Defaulted("cp_size", &EngineConfig::cp_size),
        Defaulted("weight_dtype", &EngineConfig::weight_dtype),
        Defaulted("moe_dtype", &EngineConfig::moe_dtype),
        Defaulted("activation_dtype", &EngineConfig::activation_dtype),
        Defaulted("kv_cache_dtype", &EngineConfig::kv_cache_dtype),
        Defaulted("nextn", &EngineConfig::nextn),
        Defaulted("enable_shared_layer", &EngineConfig::enable_shared_layer),
        Defaulted("strict_provenance", &EngineConfig::strict_provenance),
        Defaulted("database_mode", &EngineConfig::database_mode),
        Defaulted("tolerate_dirless_version", &EngineConfig::tolerate_dirless_version),
        Defaulted("transfer_policy", &EngineConfig::transfer_policy),
        Defaulted("extra", &EngineConfig::extra)};
  }
};

struct EngineSpec {
  std::uint32_t schema_version = kEngineSpecSchemaVersion;
  EngineConfig engine;
  std::vector<Operator> context_ops;
  std::vector<Operator> generation_ops;

  bool operator==(const EngineSpec&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("schema_version", &EngineSpec::schema_version),
                      Required("engine", &EngineSpec::engine),
                      Required("context_ops", &EngineSpec::context_ops),
                      Required("generation_ops", &EngineSpec::generation_ops)};
  }
};

}  // namespace infercast
