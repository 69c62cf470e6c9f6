// From a built model and a target to an engine description: the identity that travels with the
// operator lists, and the order in which attention kernels are looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "engine/engine_spec.h"
#include "models/model_plan.h"
#include "tables/database.h"

namespace infercast {

// Where an engine's measurements come from. Absent options are left open.
struct EngineTarget {
  std::string system;
  std::optional<std::string> backend_version;  // a literal directory version, never an alias
  std::optional<std::string> systems_path;
  std::optional<std::uint32_t> kv_block_size;
  std::optional<bool> shared_layer;
  bool strict_provenance = false;
  bool tolerate_dirless_version = false;
  DatabaseMode mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
};
EngineTarget TargetOf(const Database& database);

// Kernel sources ("lanes") in the order in which they are tried, for every attention operator that
// is not inside a composite.
struct AttentionLaneOrders {
  std::vector<std::string> context{"default"};
  std::vector<std::string> generation{"default"};
};

// Without lanes (no database was opened) every order is just "default". kUnsupportedModel when the
// plan holds an operator that engines no longer price; kInvalidArgument when it names an attention
// backend for its attention operators but no lanes are there to choose from.
Result<EngineSpec> CompileEngineSpec(ModelPlan plan, const EngineTarget& target,
                                     const std::optional<AttentionLaneOrders>& lanes = {});

// Against an opened database: its identity and, where the lists have attention of the plain kind,
// its lanes. Also the errors of ResolveLaneOrder.
Result<EngineSpec> CompileEngineSpec(ModelPlan plan, const Database& database);

// Data types under which modes travel in an engine's identity; absent when there is none.
std::optional<DataType> WeightDataType(GemmQuant mode);
std::optional<DataType> MoeDataType(MoeQuant mode);
std::optional<DataType> ActivationDataType(FmhaQuant mode);
std::optional<DataType> KvDataType(KvQuant mode);

// The modes that an engine's identity stands for; absent where a data type names no mode. Lossy:
// four 4-bit formats share one data type.
QuantOverrides QuantFromDataTypes(const EngineConfig& config);

}  // namespace infercast
